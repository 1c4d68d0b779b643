package migrate

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
	"sluice.dev/report"
)

type fixFlags struct {
	command.ClusterFlags

	mappings   []string
	out, apply string
	dryRun     bool
	output     string
}

// NewFix returns the command fix.
func NewFix(e *command.Env) *cobra.Command {
	f := &fixFlags{}
	cmd := &cobra.Command{
		Use:   "fix NEW [--map PATH:OLD=NEW...] [--out DIR] | fix --apply DIR",
		Short: "Write patches for stored objects that a new CRD would harm, and apply them",
		Long: `Fix finds the stored objects that sluice check NEW counts as harmed, and prints a patch for each: values are replaced as --map says, and the
defaults of the new CRD are filled in. Then it judges the patched object again, and says what is still wrong. It changes nothing.

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
		Annotations: map[string]string{command.ResultKind: "FixResult"},
		RunE: func(cmd *cobra.Command, args []string) error {
			config, _, err := f.Connect()
			if err != nil {
				return err
			}
			m, err := migrate.New(config, migrate.Options{DryRun: f.dryRun})
			if err != nil {
				return err
			}
			r := &FixResult{APIVersion: report.APIVersion, Kind: "FixResult", Outcome: "fixed", Objects: []FixedObject{}}
			if f.apply != "" {
				err = r.applyPatches(cmd.Context(), e, f, m)
			} else {
				err = r.findFixes(cmd.Context(), e, f, m, args[0])
			}
			if err != nil {
				return err
			}
			for _, o := range r.Objects {
				if o.Remains != "" {
					r.Outcome = "harmed"
				}
			}
			if f.output == "json" {
				if err := command.Encode(e.Out, r); err != nil {
					return err
				}
			}
			return command.FindingsIf(r.Outcome == "harmed")
		},
	}
	fs := cmd.Flags()
	f.AddCluster(fs)
	fs.StringArrayVar(&f.mappings, "map", nil, "value to replace, as PATH:OLD=NEW, such as .spec.engine:mariadb=mysql; without OLD, a value for a missing field (may be repeated)")
	fs.StringVar(&f.out, "out", "", "folder for the patches, which must be empty or missing")
	fs.StringVar(&f.apply, "apply", "", "send the patches of this folder to the cluster")
	fs.BoolVar(&f.dryRun, "dry-run", false, "with --apply: send each patch as a dry run")
	command.AddOutput(cmd, &f.output, "text", "json")
	return cmd
}

// FixResult is what becomes of harmed objects, for programs.
type FixResult struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Outcome is fixed, or harmed if something remains.
	Outcome string        `json:"outcome"`
	Error   string        `json:"error,omitempty"`
	Objects []FixedObject `json:"objects"`
}

// FixedObject is a harmed object of a CRD. File is that of its patch.
type FixedObject struct {
	migrate.Fix

	CRD  string `json:"crd"`
	File string `json:"file,omitempty"`
}

func (r *FixResult) findFixes(ctx context.Context, e *command.Env, f *fixFlags, m *migrate.Migrator, source string) error {
	var mappings []migrate.Mapping
	for _, text := range f.mappings {
		mapping, err := migrate.ParseMapping(text)
		if err != nil {
			return fmt.Errorf("--map %w", err)
		}
		mappings = append(mappings, mapping)
	}
	src, err := input.ParseSource(source)
	if err != nil {
		return err
	}
	set, err := input.Load(ctx, src, input.Options{Stdin: e.In, PassTemplates: true})
	if err != nil {
		return err
	}
	if err := refuseUsed(f.out); err != nil {
		return err
	}
	for _, d := range set.Documents {
		fixes, harmed, note, err := m.Fixes(ctx, d.CRD, mappings)
		if err != nil {
			return fmt.Errorf("objects of %s: %w", d.CRD.Name, err)
		}
		if note != "" {
			return fmt.Errorf("objects of %s cannot be judged: %s", d.CRD.Name, note)
		}
		for _, fix := range fixes {
			o := FixedObject{fix, d.CRD.Name, ""}
			if f.out != "" && fix.Patch != nil {
				if o.File, err = writePatch(f.out, o); err != nil {
					return err
				}
			}
			r.Objects = append(r.Objects, o)
			if f.output != "json" {
				printFix(e, o)
			}
		}
		if harmed > int64(len(fixes)) {
			fmt.Fprintf(e.Err, "note: %s: these are %d of %s; fix them, and run it again for the others\n", d.CRD.Name, len(fixes), brief.Count(harmed, "object"))
		}
	}
	if len(r.Objects) == 0 && f.output != "json" {
		fmt.Fprintln(e.Out, "no stored object is harmed")
	}
	return nil
}

// refuseUsed refuses a folder for patches that has files: those of an earlier run would be applied, too.
func refuseUsed(dir string) error {
	entries, err := os.ReadDir(dir)
	if dir != "" && len(entries) > 0 {
		return fmt.Errorf("--out %s: the folder is not empty; name another one, or remove the patches of an earlier run", dir)
	}
	if dir != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func writePatch(dir string, o FixedObject) (string, error) {
	text, err := yaml.Marshal(o.Patch)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, o.CRD, filepath.FromSlash(o.Object)+".yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return "", err
	}
	return file, os.WriteFile(file, text, 0o600)
}

func printFix(e *command.Env, o FixedObject) {
	fmt.Fprintf(e.Out, "# %s %s\n", o.CRD, o.Object)
	if o.Remains != "" {
		fmt.Fprintf(e.Out, "# still harmed: %s\n", brief.OneLine(o.Remains))
	}
	if o.Patch != nil {
		text, _ := yaml.Marshal(o.Patch) // it came from JSON
		fmt.Fprintf(e.Out, "%s", text)
	}
	fmt.Fprintln(e.Out, "---")
}

// applyPatches sends the patches below a folder, each CRD's in a folder of its name.
func (r *FixResult) applyPatches(ctx context.Context, e *command.Env, f *fixFlags, m *migrate.Migrator) error {
	err := filepath.WalkDir(f.apply, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".yaml" {
			return err
		}
		text, err := command.ReadFileBounded(file)
		if err != nil {
			return err
		}
		o := FixedObject{File: file}
		if err := yaml.Unmarshal(text, &o.Patch); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		rel, err := filepath.Rel(f.apply, file)
		if err != nil {
			return err
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		o.CRD, o.Object = parts[0], strings.TrimSuffix(strings.Join(parts[1:], "/"), ".yaml")
		resource, _, _ := strings.Cut(o.CRD, ".")
		err = m.ApplyFix(ctx, resource, o.Patch)
		var status apierrors.APIStatus
		switch {
		case apierrors.IsConflict(err):
			o.Remains = "somebody has changed the object since the patch was written; run sluice fix NEW again"
		case errors.As(err, &status):
			o.Remains = err.Error()
		case err != nil:
			return fmt.Errorf("%s: %w", file, err)
		}
		r.Objects = append(r.Objects, o)
		if f.output != "json" {
			fmt.Fprintf(e.Out, "%s %s: %s\n", o.CRD, o.Object, map[bool]string{true: "patched" + map[bool]string{true: " (dry run)"}[f.dryRun], false: "not patched: " + brief.OneLine(o.Remains)}[o.Remains == ""])
		}
		return nil
	})
	if err == nil && len(r.Objects) == 0 {
		err = fmt.Errorf("%s has no patch; sluice fix NEW --out %[1]s writes them", f.apply)
	}
	return err
}
