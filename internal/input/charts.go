package input

// What does Helm make of a chart? The folder crds has plain CRDs, also that of a packed chart in the folder charts. Those in the folder templates are text until the program helm renders them,
// so it renders the chart, with its default values, from a copy: it finds no files of the user there, no plugins, and no network.

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	sigsyaml "sigs.k8s.io/yaml"

	"sluice.dev/internal/limit"
)

const (
	// maxChartBytes bounds the files of a chart, and what helm prints of it. maxChartFiles bounds their number.
	maxChartBytes = 32 << 20
	maxChartFiles = 5_000
	// chartTime bounds the work on one chart, allChartsTime that on all charts of a source.
	chartTime     = 20 * time.Second
	allChartsTime = time.Minute
)

// chartTemplate is a file of a chart that has both a definition and a template, and is not decoded yet.
type chartTemplate struct {
	name, key, sum string
	data           []byte
}

// isDefinition matches the kind of a definition in a text that may be no YAML.
var isDefinition = regexp.MustCompile(`(?m)^[\s-]*["']?kind["']?:\s*["']?` + crdKind + `\b`)

// packedName matches the part of a path that names a packed chart: charts/sub-1.0.0.tgz/ of charts/sub-1.0.0.tgz/sub/crds/x.yaml.
var packedName = regexp.MustCompile(`[^/]+\.tgz/`)

// maxPacked is how deep packed charts may be in packed charts.
const maxPacked = 3

// isPackedChart reports whether a file is a packed chart that another one depends on.
func isPackedChart(name string) bool {
	name = filepath.ToSlash(name)
	return path.Ext(name) == ".tgz" && path.Base(path.Dir(name)) == "charts" && !isHiddenName(path.Base(name))
}

// readPacked decodes the definitions of a packed chart, in its folder crds and among its templates, as if it were
// unpacked below its own name. It is bounded in files, bytes and levels: an archive can hold more than it looks
// like.
func (r *reader) readPacked(ctx context.Context, name string, data []byte) error {
	key, sum, files, size := r.key, r.sum, 0, int64(0)
	defer func() { r.key, r.sum = key, sum }() // those of the packed chart
	refuse := func(err error) error { return fileError(name, err, "is a packed chart that cannot be read: %v", err) }
	if len(packedName.FindAllString(filepath.ToSlash(name), -1)) == maxPacked {
		return refuse(fmt.Errorf("packed charts are nested deeper than %d levels", maxPacked))
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return refuse(err)
	}
	archive := tar.NewReader(unzipped)
	for {
		h, err := archive.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return refuse(err)
		}
		if files++; files > maxChartFiles || size+h.Size > min(maxChartBytes, r.bytesAllowed()) {
			return refuse(fmt.Errorf("it has more than %d files or %s", maxChartFiles, byteSize(maxChartBytes)))
		}
		size += h.Size
		below := path.Clean(h.Name)
		inCRDs := slices.Contains(strings.Split(path.Dir(below), "/"), "crds")
		if h.Typeflag != tar.TypeReg || !fs.ValidPath(below) || !isPackedChart(below) && (!isWantedName(path.Base(below)) || !inCRDs && !isTemplateName(below)) {
			continue
		}
		content, err := limit.ReadAll(archive, h.Size)
		if err != nil {
			return refuse(err)
		}
		if isTemplateName(below) && !isDefinition.Match(content) {
			continue
		}
		r.key = key + "/" + below
		if err := r.decodeContent(ctx, name+"/"+below, content, true, nil); err != nil {
			return err
		}
	}
}

// deferTemplate keeps a template of a definition for [reader.renderCharts], and reports whether it is one.
func (r *reader) deferTemplate(name string, data []byte) bool {
	if !r.opts.PassTemplates || !isTemplateName(name) || !strings.Contains(string(data), "{{") || !isDefinition.Match(data) {
		return false
	}
	r.deferred = append(r.deferred, chartTemplate{name: name, key: r.key, sum: r.sum, data: data})
	return true
}

// isTemplateName reports whether a file is below a folder called templates.
func isTemplateName(name string) bool {
	return slices.Contains(strings.Split(path.Dir(filepath.ToSlash(name)), "/"), "templates")
}

// surroundings reads what stands beside the files of a source, in its work tree or revision.
type surroundings struct {
	read func(ctx context.Context, name string) ([]byte, error)
	// copyFolder hands over the regular files below a folder, with names relative to it. It follows no links.
	copyFolder func(ctx context.Context, dir string, add func(name string, data []byte) error) error
}

// renderCharts decodes the templates that were deferred: as helm renders them, or else without their lines of
// template. Each chart is rendered once, for all its templates. When the time for all charts is over, the rest
// counts as not rendered.
func (r *reader) renderCharts(ctx context.Context, around surroundings) error {
	type rendering struct {
		files map[string]string
		err   error
		sum   string // of the chart, where it is asked for
	}
	byChart := map[string]rendering{}
	helm := helmProgram{time: chartTime, most: maxChartBytes}
	all, cancel := context.WithTimeout(ctx, allChartsTime)
	defer cancel()
	for _, t := range r.deferred {
		dir := around.chartOf(ctx, filepath.ToSlash(t.name))
		if _, ok := byChart[dir]; !ok {
			files, err := map[string]string(nil), errNoChart
			if dir != "" {
				files, err = helm.renderChart(all, dir, around)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			byChart[dir] = rendering{files: files, err: err}
		}
		in := byChart[dir]
		text, ok := in.files[packedName.ReplaceAllString(filepath.ToSlash(filepath.Clean(t.name)), "")]
		why := in.err
		if why == nil && !ok {
			why = errors.New("helm renders nothing of it with the chart's default values")
		}
		if why != nil && dir != "" { // the same template is another definition with other values
			if in.sum == "" {
				in.sum = around.sumOfChart(ctx, dir)
				byChart[dir] = in
			}
			t.sum = fmt.Sprintf("%x", sha256.Sum256([]byte(t.sum+in.sum)))
		}
		if err := r.addTemplate(ctx, t, text, why); err != nil {
			return err
		}
	}
	return nil
}

// sumOfChart returns the SHA-256 of the files on which the definitions of a chart may depend. Chart.yaml does not count, because its version
// changes with each release, and documents do not. If a file cannot be read, the sum is a new one, so that nothing counts as unchanged.
func (s surroundings) sumOfChart(ctx context.Context, dir string) string {
	var files []string
	err := s.copyFolder(ctx, dir, func(name string, data []byte) error {
		if name != "Chart.yaml" && path.Ext(name) != ".md" {
			files = append(files, fmt.Sprintf("%s %x", name, sha256.Sum256(data)))
		}
		return nil
	})
	if err != nil {
		return rand.Text()
	}
	slices.Sort(files)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(files, "\n"))))
}

var errNoChart = errors.New("no folder above it has a Chart.yaml")

// chartOf returns the outermost chart that a template belongs to: a sub-chart, which may be packed, is rendered with the chart around it. Empty
// is none.
func (s surroundings) chartOf(ctx context.Context, name string) string {
	isChart := func(dir string) bool {
		_, err := s.read(ctx, path.Join(dir, "Chart.yaml"))
		return err == nil
	}
	dir, templates := path.Dir(name), "templates"
	if at := packedName.FindStringIndex(name); at != nil {
		dir, templates = path.Clean(name[:at[0]]), "charts"
	}
	for path.Base(dir) != templates || !isChart(path.Dir(dir)) {
		if dir == path.Dir(dir) {
			return ""
		}
		dir = path.Dir(dir)
	}
	dir = path.Dir(dir)
	for path.Base(path.Dir(dir)) == "charts" && isChart(path.Join(dir, "../..")) {
		dir = path.Join(dir, "../..")
	}
	return dir
}

// addTemplate adds the definitions of a template: those of the rendered text, or, if why says that there is none,
// those of the template without the lines that are only template. A template that is YAML as it is needs no helm.
// With [Options.KeepAll], one that cannot be read at all is among the unread files; without, it is only listed.
func (r *reader) addTemplate(ctx context.Context, t chartTemplate, rendered string, why error) error {
	r.key, r.sum = t.key, t.sum
	if why == nil {
		if why = r.addRendered(ctx, t.name, rendered); why == nil {
			r.set.Rendered = append(r.set.Rendered, t.name)
			return nil
		}
		why = fmt.Errorf("what helm renders of it cannot be read: %w", why)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	left := Unrendered{t.name, strings.ReplaceAll(why.Error(), "\n", " ")}
	text := string(t.data)
	err := r.readTemplate(ctx, t, text)
	if err == nil && errors.Is(why, errNoChart) {
		return nil // YAML that happens to be in a folder of this name
	}
	if err != nil {
		if stripped, ok := withoutTemplateLines(text); ok {
			err = r.readTemplate(ctx, t, stripped)
			left.Why += "; lines that are only template are left out"
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		r.set.Unrendered = append(r.set.Unrendered, left)
		return nil
	case r.opts.KeepAll:
		return r.keepUnread(fileError(t.name, err, "is a template of a CustomResourceDefinition, and it is not rendered: %v", why), t.data)
	}
	r.set.Unrendered = append(r.set.Unrendered, left)
	r.set.Templates = append(r.set.Templates, t.name)
	return nil
}

// readTemplate adds the definitions of a template that is YAML as it is.
func (r *reader) readTemplate(ctx context.Context, t chartTemplate, text string) error {
	if _, err := Decode(ctx, t.name, []byte(text)); err != nil {
		return err
	}
	r.passPatches = true
	return r.addFile(ctx, t.name, []byte(text))
}

// addRendered adds the definitions of what helm renders of a file. Its lines are not those of the file, so they are not told. Neither is the
// file's sum: with other values, the same file is another definition.
func (r *reader) addRendered(ctx context.Context, name, text string) error {
	if _, err := Decode(ctx, name, []byte(text)); err != nil {
		return err
	}
	first, warnings := len(r.set.Documents), len(r.set.Warnings)
	err := r.addFile(ctx, name, []byte(text))
	for i := first; i < len(r.set.Documents); i++ {
		d := &r.set.Documents[i]
		d.Line, d.Positions, d.Sum = 0, nil, ""
	}
	for i := warnings; i < len(r.set.Warnings); i++ {
		r.set.Warnings[i].Position.Line, r.set.Warnings[i].Position.Column = 0, 0
	}
	return err
}

// templateLines matches lines that are only template: a comment, an action, or several actions on one line.
var templateLines = regexp.MustCompile(`(?m)^[ \t]*\{\{(?:(?:- )?/\*(?s:.*?)\*/(?: -)?|[^{}]*|[^\n]*)\}\}[ \t]*\r?\n`)

// withoutTemplateLines empties the lines of a text that are only template. With {{ else }} both branches would
// stay, so that is not done. The number of lines stays, so that positions are right. It reports whether there was
// anything to empty.
func withoutTemplateLines(text string) (string, bool) {
	if regexp.MustCompile(`\{\{-?\s*(else|range|define)\b`).MatchString(text) {
		return "", false
	}
	out := templateLines.ReplaceAllStringFunc(text, func(lines string) string { return strings.Repeat("\n", strings.Count(lines, "\n")) })
	return out, out != text
}

// helmProgram renders charts with the program helm.
type helmProgram struct {
	time time.Duration
	most int64
}

// renderChart returns what helm renders of the templates of a chart, by the names of their files. The error is one
// line, for a note. It is not the context's: too long a rendering is a reason to do without it.
func (h helmProgram) renderChart(ctx context.Context, dir string, around surroundings) (map[string]string, error) {
	program, err := exec.LookPath("helm")
	if err != nil {
		return nil, errors.New("helm is not installed, which would render the chart")
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "sluice-chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // what helm leaves behind is in a folder for temporary files
	limited, cancel := context.WithTimeout(ctx, h.time)
	defer cancel()
	if err := h.copyChart(limited, dir, temp, around); err != nil {
		return nil, err
	}
	out, err := h.runHelm(limited, program, temp)
	switch {
	case limited.Err() != nil:
		return nil, fmt.Errorf("helm did not end within %s", h.time)
	case errors.Is(err, limit.ErrTooLarge):
		return nil, fmt.Errorf("helm prints more than %s", byteSize(h.most))
	case err != nil:
		return nil, fmt.Errorf("helm template: %s", strings.TrimPrefix(err.Error(), "Error: "))
	}
	return renderedFiles(dir, string(out)), nil
}

// copyChart copies a chart to the folder chart of temp. The schemas of values stay behind: they may refer to the
// network. Dependencies that are not in the chart are taken out of its files.
func (h helmProgram) copyChart(ctx context.Context, dir, temp string, around surroundings) error {
	for _, name := range []string{"chart", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(temp, name), 0o700); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(filepath.Join(temp, "chart"))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // the files are closed
	var files int
	var size int64
	err = around.copyFolder(ctx, dir, func(name string, data []byte) error {
		files++
		size += int64(len(data))
		switch {
		case files > maxChartFiles || size > maxChartBytes:
			return fmt.Errorf("the chart is too large: more than %d files or %s", maxChartFiles, byteSize(maxChartBytes))
		case path.Base(name) == "values.schema.json":
			return nil
		}
		if err := root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o700); err != nil {
			return err
		}
		return root.WriteFile(filepath.FromSlash(name), data, 0o600)
	})
	if err != nil {
		return err
	}
	return errors.Join(dropDependencies(root, "Chart.yaml"), dropDependencies(root, "requirements.yaml"))
}

// dropDependencies takes those dependencies out of a file that are not in the folder charts, as in a repository that fetches them later: helm
// refuses to render without them, and their CRDs are not in the repository. A file that is not there, or no YAML, is left as it is.
func dropDependencies(root *os.Root, file string) error {
	data, err := root.ReadFile(file)
	if err != nil {
		return nil //nolint:nilerr // helm says what it misses
	}
	var chart map[string]any
	if err := sigsyaml.Unmarshal(data, &chart); err != nil {
		return nil //nolint:nilerr // helm says what is wrong
	}
	all, _ := chart["dependencies"].([]any)
	here := slices.DeleteFunc(slices.Clone(all), func(d any) bool {
		object, _ := d.(map[string]any)
		name, _ := object["name"].(string)
		if _, err := root.Stat(path.Join("charts", name)); err == nil {
			return false
		}
		packed, err := fs.Glob(root.FS(), path.Join("charts", name+"-*.tgz"))
		return err == nil && len(packed) == 0
	})
	if len(here) == len(all) {
		return nil
	}
	chart["dependencies"] = here
	if data, err = sigsyaml.Marshal(chart); err != nil {
		return err
	}
	return root.WriteFile(file, data, 0o600)
}

// runHelm runs helm template in a folder that has the chart, and returns what it prints. The environment has
// nothing of the user but PATH: no repositories, plugins or clusters, and proxies that lead nowhere instead of the
// network.
func (h helmProgram) runHelm(ctx context.Context, program, temp string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, "template", "release", "./chart")
	home := filepath.Join(temp, "home")
	const nowhere = "http://127.0.0.1:9"
	cmd.Dir, cmd.WaitDelay = temp, time.Second
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + filepath.Join(temp, "tmp"), "LC_ALL=C",
		"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home, "HELM_PLUGINS=" + filepath.Join(home, "plugins"),
		"KUBECONFIG=" + filepath.Join(home, "kubeconfig"), "HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere,
	}
	return outputOf(cmd, h.most)
}

// renderedFiles takes apart what helm template prints: each document begins with the file that it comes from, below the chart's name. dir is the
// chart's folder.
func renderedFiles(dir, out string) map[string]string {
	files := map[string]string{}
	for _, c := range splitStream(out) {
		for line := range strings.Lines(c.text) {
			source, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "# Source: ")
			if !ok {
				continue
			}
			if _, below, ok := strings.Cut(source, "/"); ok {
				files[path.Join(dir, below)] += c.text
			}
			break
		}
	}
	return files
}

// copyFolderBeside is [surroundings.copyFolder] of the file system.
func (r *reader) copyFolderBeside(ctx context.Context, dir string, add func(string, []byte) error) error {
	root, err := os.OpenRoot(cmp.Or(r.pathInDir(dir), "."))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // nothing was written
		data, err := limit.ReadAll(f, maxChartBytes)
		if err != nil {
			return err
		}
		return add(name, data)
	})
}

// copyFolderOf is [surroundings.copyFolder] of a revision.
func (w *gitWalker) copyFolderOf(ctx context.Context, dir string, add func(string, []byte) error) error {
	if dir == "." {
		dir = ""
	}
	entries, err := w.g.listTree(ctx, w.tree, dir)
	if err != nil {
		return err
	}
	in := &gitWalker{r: &reader{loader: newLoader(dir, Options{MaxFileBytes: maxChartBytes, MaxTotalBytes: maxChartBytes})}, g: w.g}
	for _, e := range entries {
		if e.mode == "100644" || e.mode == "100755" {
			e.name = strings.TrimPrefix(strings.TrimPrefix(e.path, dir), "/")
			in.files = append(in.files, e)
		}
	}
	return in.forEachFile(ctx, func(f gitEntry, data []byte, err error) error {
		if err != nil {
			return err
		}
		return add(f.name, data)
	})
}
