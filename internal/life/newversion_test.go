package life

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// versionLibrary is a module with what the conversions of controller-runtime need.
const versionLibrary = `-- library/go.mod --
module sigs.k8s.io/controller-runtime

go 1.26.0
-- library/pkg/conversion/conversion.go --
package conversion

// Hub is the version in the middle.
type Hub interface{ Hub() }
-- library/pkg/webhook/webhook.go --
package webhook

// Manager runs webhooks.
type Manager interface{ Run() }
`

// withLibrary has the project of a test take controller-runtime from [versionLibrary].
func withLibrary(t *testing.T, archive string) {
	t.Helper()
	project(t, laidOut+versionLibrary+archive)
	write(t, "go.mod", read(t, "go.mod")+"\nreplace sigs.k8s.io/controller-runtime => ./library\n")
}

// TestACopiedVersionCompiles: with the files that it embeds, and without conversions, wherever they stand.
func TestACopiedVersionCompiles(t *testing.T) {
	withLibrary(t, `-- api/v1/default.txt --
a title
-- api/v1/texts/en/more.txt --
more
-- api/v1/texts/unused.txt --
unused
-- api/v1/hook.txt --
of the webhook
-- api/v1/embed.go --
package v1

import (
	"embed"
	_ "embed"
)

//go:embed default.txt
var defaultTitle string

//go:embed all:texts/en "texts/en/*.txt"
var texts embed.FS
-- api/v1/guestbook_webhook.go --
package v1

import _ "embed"

//go:embed hook.txt
var hook string
-- api/v1/hub.go --
package v1

// Hub is the version to which others are converted.
func (*Guestbook) Hub() {}
-- api/v1/guestbook_methods.go --
// Package v1 has methods.
package v1

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

var _ conversion.Hub = &Guestbook{}

var (
	_ conversion.Hub = (*Guestbook)(nil) // one more
	_ fmt.Stringer   = (*Guestbook)(nil)
)

// ConvertTo converts.
func (in *Small) ConvertTo(hub conversion.Hub) error { return fmt.Errorf("no %T", hub) }

// ConvertFrom converts.
func (in *Small) ConvertFrom(
	hub conversion.Hub,
) error {
	// It cannot.
	return fmt.Errorf("no %T", hub)
}

// String is not of a conversion, nor are the methods below.
func (in *Guestbook) String() string { return fmt.Sprint(in.Name) }

// Hub has a result.
func (in *Small) Hub() string { return in.X }

// ConvertTo has a text.
func (in *Entry) ConvertTo(text string) { in.Text = text }
`)
	out, err := Scaffold(t.Context(), "features.yaml", NewFeature{Gate: "BookV2", Version: "v2alpha1"}, verifyDay)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(); err != nil {
		t.Fatal(err)
	}
	if said, err := goBuild(t.Context(), ".", "api/v2alpha1"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	var names []string
	for file := range maps.Keys(filesBelow(t, "api/v2alpha1")) {
		names = append(names, file)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"default.txt", "embed.go", "groupversion_info.go", "guestbook_methods.go", "guestbook_types.go", "hook.txt", "texts/en/more.txt"}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const want = `// Package v2alpha1 has methods.
package v2alpha1

import (
	"fmt"
)

var (
	_ fmt.Stringer   = (*Guestbook)(nil)
)

// String is not of a conversion, nor are the methods below.
func (in *Guestbook) String() string { return fmt.Sprint(in.Name) }

// Hub has a result.
func (in *Small) Hub() string { return in.X }

// ConvertTo has a text.
func (in *Entry) ConvertTo(text string) { in.Text = text }
`
	if diff := cmp.Diff(want, read(t, "api/v2alpha1/guestbook_methods.go")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// filesBelow are the files below a folder.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, e := filepath.Rel(dir, path)
			out[filepath.ToSlash(rel)], err = read(t, path), e
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestACopyThatDoesNotCompileIsNotWritten: the errors have the places in the files that are copied, behind what the copy is without.
func TestACopyThatDoesNotCompileIsNotWritten(t *testing.T) {
	for _, tt := range []struct{ name, archive, want string }{
		{"a constant of a webhook", `-- api/v1/frobber_webhook.go --
package v1

// MaxHeight is a bound.
const MaxHeight = 100
-- api/v1/v1_helpers.go --
// Package v1 has helpers.
package v1

// Hub is the version to which others are converted.
// It has no
// other text.
func (*Guestbook) Hub() {}

// TooHigh compares.
func TooHigh(n int) bool { return n > MaxHeight }
`, `api/v1/v1_helpers.go:10: undefined: MaxHeight (in the copy for v2alpha1)
api/v2alpha1 does not compile as a copy of api/v1, and was not written. The copy is without what belongs to v1 only: frobber_webhook.go, Hub of Guestbook in v1_helpers.go. Move what the rest needs from there to another file, and run the command again. If you write the package yourself, the command adds the marker to it`},
		{"the package itself", "-- api/v1/more.go --\npackage v1\n\nvar x = nowhere\n", "api/v1/more.go:3: undefined: nowhere\napi/v1 does not compile, so that there can be no copy of it: mend it first"},
		{"a package below it", "-- api/v1/more.go --\npackage v1\n\nimport _ \"example.com/shop/low\"\n-- low/low.go --\npackage low\n\nvar x string = 1\n", "low/low.go:3: cannot use 1 (untyped int constant) as string value in variable declaration\napi/v1 does not compile"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withLibrary(t, tt.archive)
			before := tree(t)
			out, err := Scaffold(t.Context(), "features.yaml", NewFeature{Gate: "BookV2", Version: "v2alpha1"}, verifyDay)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || out != nil {
				t.Errorf("the error is %v", err)
			}
			if after := tree(t); !slices.Equal(before, after) {
				t.Errorf("the files are %v, they were %v", after, before)
			}
			if _, err := os.Stat("api/v2alpha1"); err == nil {
				t.Error("the folder is left")
			}
			// Places are named from elsewhere too.
			root, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			_, err = Scaffold(t.Context(), filepath.Join(root, "features.yaml"), NewFeature{Gate: "BookV2", Version: "v2alpha1"}, verifyDay)
			if first, _, _ := strings.Cut(tt.want, "\n"); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(root, first)) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
