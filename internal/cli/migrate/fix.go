package migrate

// How are stored objects mended that a new CRD would harm? fix prints a merge patch for each, from values that the
// user maps and the defaults of the new CRD, and judges the result again. The patches can be written to a folder,
// reviewed, and sent by fix --apply. For example, --map .spec.engine:mariadb=mysql replaces a value that the new
// enum lacks.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/input"
	"sluice.dev/internal/migrate"
)

// fixFlags are those of fix. With apply, a folder, neither mappings nor out may be given.
type fixFlags struct {
	command.ClusterFlags

	mappings   []string
	out, apply string
}

// NewFix returns the command fix.
func NewFix(e *command.Env) *cobra.Command {
	f := &fixFlags{}
	cmd := &cobra.Command{
		Use:   "fix NEW [--map PATH:OLD=NEW...] [--out DIR] | fix --apply DIR",
		Short: "Write patches for stored objects that a new CRD would harm, and apply them",
		Long: `Fix finds the stored objects that sluice check NEW counts as harmed, and prints a patch for each, as YAML: values are replaced as --map says, and
the defaults of the new CRD are filled in. Then it judges the patched object again, and says what is still wrong. It changes nothing.

With --out it writes the patches to a folder, one file for each object, for you to look at and change. sluice fix --apply sends them to the
cluster. A patch is for one resourceVersion of its object: if somebody has changed the object since, the patch is refused.

Exit codes: 0 all harmed objects are or can be fixed, 1 some cannot, 2 error.`,
		Example: `  sluice fix new.yaml --map .spec.engine:mariadb=mysql
  sluice fix new.yaml --map .spec.engine:mariadb=mysql --map .spec.parts[*].size:=small --out fixes
  sluice fix --apply fixes`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.apply == "" && len(args) != 1 {
				return errors.New("name the new CRDs: a file, a directory or -; or give --apply DIR with patches that sluice fix --out DIR wrote")
			}
			if f.apply != "" && (len(args) > 0 || f.out != "" || len(f.mappings) > 0) {
				return errors.New("--apply sends the patches of a folder as they are: NEW, --map and --out are for sluice fix without it")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			config, _, err := f.Connect()
			if err != nil {
				return err
			}
			m, err := migrate.New(config, migrate.Options{})
			if err != nil {
				return err
			}
			var remain bool
			if f.apply != "" {
				remain, err = applyPatches(cmd.Context(), e, m, f.apply)
			} else {
				remain, err = findFixes(cmd.Context(), e, f, m, args[0])
			}
			if err != nil {
				return err
			}
			return command.FindingsIf(remain)
		},
	}
	fs := cmd.Flags()
	f.AddCluster(fs)
	fs.StringArrayVar(&f.mappings, "map", nil, "value to replace, as PATH:OLD=NEW, such as .spec.engine:mariadb=mysql; without OLD, a value for a missing field (may be repeated)")
	fs.StringVar(&f.out, "out", "", "folder for the patches")
	fs.StringVar(&f.apply, "apply", "", "send the patches of this folder to the cluster")
	return cmd
}

// findFixes prints and writes the patches, and reports whether they leave something harmed. It names mappings that
// no object needed, since they are mistyped most often.
func findFixes(ctx context.Context, e *command.Env, f *fixFlags, m *migrate.Migrator, source string) (remain bool, err error) {
	var mappings []*migrate.Mapping
	for _, text := range f.mappings {
		mapping, err := migrate.ParseMapping(text)
		if err != nil {
			return false, fmt.Errorf("--map %w", err)
		}
		mappings = append(mappings, mapping)
	}
	src, err := input.ParseSource(source)
	if err != nil {
		return false, err
	}
	set, err := input.Load(ctx, src, input.Options{Stdin: e.In, PassTemplates: true})
	if err != nil {
		return false, err
	}
	found := 0
	for _, d := range set.Documents {
		fixes, harmed, err := m.Fixes(ctx, d.CRD, mappings)
		if err != nil {
			return false, fmt.Errorf("objects of %s: %w", d.CRD.Name, err)
		}
		for _, fix := range fixes {
			remain = remain || fix.Remains != ""
			if err := showFix(e, d.CRD.Name, fix, f.out); err != nil {
				return false, err
			}
		}
		if found += len(fixes); harmed > int64(len(fixes)) {
			fmt.Fprintf(e.Err, "note: %s: these are %d of %s; fix them, and run it again for the others\n", d.CRD.Name, len(fixes), brief.Count(harmed, "object"))
		}
	}
	if found == 0 {
		fmt.Fprintln(e.Out, "# no stored object is harmed")
	}
	for i, mapping := range mappings {
		if found > 0 && mapping.Hits == 0 {
			fmt.Fprintf(e.Err, "note: no harmed object has the value of --map %s\n", f.mappings[i])
		}
	}
	return remain, nil
}

// showFix prints a patch, and writes it below a folder, if one is named. The file is DIR/CRD/NAMESPACE/NAME.yaml,
// which --apply reads again.
//
//	---
//	# widgets.example.com default/old-widget
//	apiVersion: example.com/v1
//	kind: Widget
//	metadata: {name: old-widget, namespace: default, resourceVersion: "812", uid: ...}
//	spec: {engine: mysql}
func showFix(e *command.Env, crd string, fix migrate.Fix, dir string) error {
	fmt.Fprintf(e.Out, "---\n# %s %s\n", crd, fix.Object)
	if fix.Remains != "" {
		fmt.Fprintf(e.Out, "# still harmed: %s\n", brief.OneLine(fix.Remains))
	}
	if fix.Patch == nil {
		return nil
	}
	text, err := yaml.Marshal(fix.Patch)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Out, "%s", text)
	if dir == "" {
		return nil
	}
	file := filepath.Join(dir, crd, filepath.FromSlash(fix.Object)+".yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// applyPatches sends the patches below a folder, each CRD's in a folder of its name, and reports whether some were
// refused. A patch that the API server refuses is printed and does not stop the others; any other error does. A
// folder without a patch is an error.
func applyPatches(ctx context.Context, e *command.Env, m *migrate.Migrator, dir string) (refused bool, err error) {
	sent := 0
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".yaml" {
			return err
		}
		text, err := command.ReadFileBounded(file)
		if err != nil {
			return err
		}
		var patch map[string]any
		if err := yaml.Unmarshal(text, &patch); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		// The folder of the first level is the CRD; its name begins with the resource.
		crd, _, below := strings.Cut(filepath.ToSlash(rel), "/")
		resource, _, isCRD := strings.Cut(crd, ".")
		if !below || !isCRD {
			return fmt.Errorf("%s: give the folder that sluice fix --out wrote; it has a folder for each CRD, such as widgets.example.com", file)
		}
		err = m.ApplyFix(ctx, resource, patch)
		var status apierrors.APIStatus
		switch sent++; {
		case apierrors.IsConflict(err):
			fmt.Fprintf(e.Out, "%s: not patched: somebody has changed the object since the patch was written; run sluice fix NEW again\n", file)
		case errors.As(err, &status):
			reason := err.Error()
			if _, unknown, ok := strings.Cut(reason, "strict decoding error: "); ok { // the whole object stands before it
				reason = unknown + ", which the CRD of the cluster does not have; apply the new CRD first"
			}
			fmt.Fprintf(e.Out, "%s: not patched: %s\n", file, brief.OneLine(reason))
		case err != nil:
			return fmt.Errorf("%s: %w", file, err)
		default:
			fmt.Fprintf(e.Out, "%s: patched\n", file)
		}
		refused = refused || err != nil
		return nil
	})
	if err == nil && sent == 0 {
		err = fmt.Errorf("%s has no patch; sluice fix NEW --out %[1]s writes them", dir)
	}
	return refused, err
}
