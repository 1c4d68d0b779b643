package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/config"
	"sluice.dev/internal/preflight"
)

// pagesOf reads the Markdown pages of the module, with the module's folder as the working directory from then on.
func pagesOf(t *testing.T, below ...string) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	pages := map[string]string{}
	for _, dir := range below {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			pages[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

var (
	// commandStart is where a command of a shell begins on a line of a page.
	commandStart = regexp.MustCompile(`(?:^|[|;(&] *)(?:\$ +)?(sluice [^|;#&><)]*)`)
	quotedWord   = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
	// substituted is a command whose output is an argument.
	substituted = regexp.MustCompile(`\$\([^()]*\)`)
)

// TestCommandsOnPagesExist parses each sluice command of README and docs with its flags; --help keeps it from doing its work.
func TestCommandsOnPagesExist(t *testing.T) {
	seen := 0
	for page, text := range pagesOf(t, "README.md", "docs") {
		for _, b := range pageBlocks(t, text) {
			if b.language != "sh" && b.language != "console" {
				continue
			}
			joined := strings.ReplaceAll(b.text, "\\\n", " ")
			for i, line := range strings.Split(joined, "\n") {
				if b.language == "console" && !strings.HasPrefix(line, "$ ") {
					continue
				}
				for _, m := range commandStart.FindAllStringSubmatch(substituted.ReplaceAllString(line, "VALUE"), -1) {
					args := quotedWord.FindAllString(m[1], -1)[1:]
					var out, errs bytes.Buffer
					if code := Main(append(args, "--help"), strings.NewReader(""), &out, &errs); code != ExitOK || strings.HasPrefix(out.String(), "Sluice ") && len(args) > 0 {
						t.Errorf("%s:%d: %s: exit code %d: %s", page, b.line+1+i, m[1], code, errs.String())
					}
					seen++
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d commands on the pages", seen)
	}
}

// TestYAMLOnPagesIsRead reads each YAML block of README and docs: it has to parse, and an object of Sluice's kinds has no key that its
// kind does not have.
func TestYAMLOnPagesIsRead(t *testing.T) {
	known := map[string]func() any{
		"Component":         func() any { return &v1alpha1.Component{} },
		"Feature":           func() any { return &v1alpha1.Feature{} },
		"Delivery":          func() any { return &v1alpha1.Delivery{} },
		"ResolutionRequest": func() any { return &v1beta1.ResolutionRequest{} },
	}
	seen, objects := 0, 0
	for page, text := range pagesOf(t, "README.md", "docs") {
		for _, b := range pageBlocks(t, text) {
			if b.language != "yaml" {
				continue
			}
			seen++
			documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(b.text)))
			for {
				document, err := documents.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				var content any // a fragment of an object, such as a list, is content too
				if err == nil {
					err = yaml.Unmarshal(document, &content)
				}
				object, _ := content.(map[string]any)
				kind, _ := object["kind"].(string)
				if empty := known[kind]; err == nil && empty != nil {
					objects++
					err = yaml.UnmarshalStrict(document, empty())
				}
				if err == nil && kind == "Config" {
					objects++
					_, _, err = config.Parse(page, document, preflight.Rules())
				}
				if err != nil {
					t.Errorf("%s:%d: %v", page, b.line, err)
					break
				}
			}
		}
	}
	if seen < 40 || objects < 12 {
		t.Errorf("only %d blocks with %d objects of known kinds", seen, objects)
	}
}
