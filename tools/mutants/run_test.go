package main

import (
	"bufio"
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// small is a module with a package, another that depends on it, and tests of both.
var small = map[string]string{
	"go.mod": "module small.example\n\ngo 1.26\n",
	"add/add.go": `package add

func Add(a, b int) int { return a + b }

func Twice(a int) int { return Add(a, a) }

func Unused() int { return 3 }
`,
	"add/add_test.go": `package add

import "testing"

func TestAdd(t *testing.T) {
	for _, x := range []int{0, 2} {
		t.Run("from above", func(t *testing.T) {
			if Add(x, 3) != x+3 {
				t.Error("wrong")
			}
		})
	}
}

func TestZero(t *testing.T) {
	if Add(0, 0) != 0 {
		t.Error("wrong")
	}
}
`,
	"use/use.go": `package use

import "small.example/add"

func Four() int { return add.Twice(2) }
`,
	"use/use_test.go": `package use

import "testing"

func TestFour(t *testing.T) {
	if Four() != 4 {
		t.Error("wrong")
	}
}
`,
}

func runSmall(t *testing.T, known catchers, list ...fault) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range small {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range list {
		list[i].number = i + 1
	}
	var out bytes.Buffer
	r := &runner{code: newModule(dir), limit: 2 * time.Second, out: bufio.NewWriter(&out), catchers: known}
	err := r.runAll(t.Context(), list)
	if err := r.out.Flush(); err != nil {
		t.Fatal(err)
	}
	for name, text := range small {
		if now, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(now) != text {
			t.Errorf("%s was changed (%v)", name, err)
		}
	}
	return out.String(), err
}

func TestFaultsOfASmallModule(t *testing.T) {
	wrong := fault{in: "add.Add", find: "a + b", put: "a - b", broken: "sums are differences"}
	far := fault{in: "add.Twice", call: "Add", answers: "a + 1", broken: "twice is one more"}
	hang := fault{in: "add.Add", find: "return a + b", put: "for { a++ }", broken: "sums take for ever"}
	unseen := fault{in: "add.Unused", returns: "4", broken: "nobody looks"}
	broken := fault{in: "add.Unused", returns: "x", broken: "no Go"}
	gone := fault{in: "add.Thrice", returns: "4", broken: "not in the package"}
	twice := fault{in: "add.Add", find: "b", put: "a", broken: "more than once in the function"}
	for _, tt := range []struct {
		name   string
		faults []fault
		want   []string // parts of what is printed
		err    error
		text   []string // parts of the error
	}{
		{"caught", []fault{wrong, far, hang}, []string{"add TestAdd/from_above\n", "use TestFour\n", "add: hangs\n", "3 of 3 caught"}, nil, nil},
		{"survived", []fault{wrong, unseen}, []string{"SURVIVED", "1 of 2 caught"}, errSurvived, []string{"1 fault"}},
		{
			"no faults of this code",
			[]fault{broken, gone, twice, wrong},
			[]string{"ERROR", "1 of 4 caught"},
			errTable,
			[]string{"no Go", "does not compile", "package add declares Thrice 0 times", "add.Add has 2 places"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := runSmall(t, catchers{}, tt.faults...)
			if !errors.Is(err, tt.err) || errors.Is(err, errSurvived) != errors.Is(tt.err, errSurvived) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			for _, part := range tt.want {
				if !strings.Contains(out, part) {
					t.Errorf("%q is not in the table:\n%s", part, out)
				}
			}
			for _, part := range tt.text {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in the error: %v", part, err)
				}
			}
		})
	}
}

// TestTheTestThatCaughtAFaultIsAskedFirst: it is remembered, and no longer if it does not catch the fault.
func TestTheTestThatCaughtAFaultIsAskedFirst(t *testing.T) {
	wrong := fault{in: "add.Add", find: "a + b", put: "a - b", broken: "sums are differences"}
	known := catchers{}
	for name, before := range map[string]catcher{"elsewhere": {"use", "TestFour"}, "gone": {"use", "TestFive"}, "blind": {"add", "TestZero"}} {
		t.Run(name, func(t *testing.T) {
			want := catcher{"add", "TestAdd"}
			known[wrong.key()] = before
			if name == "elsewhere" {
				want = before
			}
			out, err := runSmall(t, known, wrong)
			if err != nil || !strings.Contains(out, want.pkg+" "+want.test) || known[wrong.key()] != want {
				t.Errorf("%v, %v\n%s", err, known, out)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "caught.tsv")
	if err := known.writeTo(path, []fault{wrong}); err != nil {
		t.Fatal(err)
	}
	if read, err := readCatchers(path); err != nil || !maps.Equal(read, known) || len(read) != 1 {
		t.Errorf("%v, %v", read, err)
	}
	if err := known.writeTo(path, nil); err != nil || len(known) != 0 {
		t.Errorf("%v, %v: a fault that the table does not have stays", known, err)
	}
}

func TestTestsOf(t *testing.T) {
	g, err := loadGraph(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	// Its own first, the whole command last, and those of its other users in between.
	settings := g.testsOf("internal/config")
	if settings[0] != "internal/config" || settings[len(settings)-1] != "internal/cli" || !slices.Contains(settings, "internal/controller/guard") || slices.Contains(settings, "schema/contain") {
		t.Errorf("tests of the configuration: %v", settings)
	}
	logic := g.testsOf("schema/contain/internal/logic")
	if logic[0] != "schema/contain/internal/logic" || !slices.Contains(logic, "schema/contain") || !slices.Contains(logic, "internal/cli") || slices.Contains(logic, "report") {
		t.Errorf("tests of the solver: %v", logic)
	}
}
