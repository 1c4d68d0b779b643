package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shop is a package of two files.
var shop = map[string]string{
	"shop/shop.go": `package shop

const most = 1 << 3

var prices = map[string]int{"tea": 2, "milk": 1}

// open tells whether a shop is open.
func open(hour int) bool {
	if hour < 8 || !weekday(hour) {
		return false
	}
	log(hour)
	return weekday(hour + 1) && // tomorrow
		hour > 3 && (hour < 20 || late[int](hour) == 1)
}

func log(hour int) {}

func late[T any](hour T) int { return most }
`,
	"shop/list.go": `package shop

type list[T any] []T

func (l *list[T]) add(x T) { *l = append(*l, x) }

func (l list[T]) len() int { return len(l) }

func weekday(hour int) bool { return hour/24%7 < 5 }
`,
}

// inShop applies a fault to the package, with each change of the text of its files made before.
func inShop(t *testing.T, f fault, changes ...string) (file, text string, err error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range shop {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.NewReplacer(changes...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.broken = "something"
	file, out, err := f.applyTo(newModule(dir))
	return file, string(out), err
}

func TestFaultIsSeededWhereItsFunctionStands(t *testing.T) {
	for _, tt := range []struct {
		name       string
		fault      fault
		file, want string // want is a part of the file with the fault
	}{
		{"in a function of several files", fault{in: "shop.weekday", returns: "true"}, "list.go", "bool {\nreturn true\n return hour"},
		{"in a method of a generic type", fault{in: "shop.(*list).add", find: "append(*l, x)", put: "nil"}, "list.go", "{ *l = nil }"},
		{"in a method without a pointer", fault{in: "shop.list.len", returns: "0"}, "list.go", "int {\nreturn 0\n"},
		{"in a generic function", fault{in: "shop.late", find: "most", put: "0"}, "shop.go", "int { return 0 }"},
		{"in a constant", fault{in: "shop.most", find: "3", put: "4"}, "shop.go", "1 << 4"},
		{"in a variable", fault{in: "shop.prices", find: `"tea": 2`, put: `"tea": 0`}, "shop.go", `"tea": 0, "milk"`},
		{"find looks across line breaks and comments", fault{in: "shop.open", find: "weekday(hour+1)&&hour>3", put: "true"}, "shop.go", "return true && (hour"},
		{"find takes any tokens", fault{in: "shop.open", find: "if hour < 8", put: "if hour <= 8"}, "shop.go", "if hour <= 8 ||"},
		{"without a statement", fault{in: "shop.open", without: "log"}, "shop.go", "}\n\t\n\treturn"},
		{"without the last operand", fault{in: "shop.open", without: "late[int]"}, "shop.go", "hour > 3 && (hour < 20)"},
		{"without the first operand", fault{in: "shop.open", without: "hour < 8"}, "shop.go", "if !weekday(hour) {"},
		{"each call answers", fault{in: "shop.open", call: "weekday", answers: "true"}, "shop.go", "!true {\n\t\treturn false\n\t}\n\tlog(hour)\n\treturn true &&"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, text, err := inShop(t, tt.fault)
			if err != nil || file != "shop/"+tt.file || !strings.Contains(text, tt.want) {
				t.Errorf("%q is not in %s (%v):\n%s", tt.want, file, err, text)
			}
		})
	}
}

func TestFaultHoldsAfterAnEditElsewhere(t *testing.T) {
	f := fault{in: "shop.open", find: "hour < 8 || !weekday(hour)", put: "false"}
	for name, changes := range map[string][]string{
		"its file has another function":       {"package shop\n\nconst", "package shop\n\nfunc closed() bool { return open(3) }\n\nconst"},
		"the function is formatted otherwise": {"hour < 8 || !weekday(hour)", "hour < 8 || // early\n\t\t!weekday(\n\t\t\thour,\n\t\t)"},
		"its text occurs in another function": {"func log(hour int) {}", "func log(hour int) { _ = hour < 8 || !weekday(hour) }"},
		"another statement of it changes":     {"log(hour)", "log(hour + 1)"},
	} {
		if _, text, err := inShop(t, f, changes...); err != nil || !strings.Contains(text, "if false {") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	whole := shop["shop/shop.go"][strings.Index(shop["shop/shop.go"], "// open"):]
	file, text, err := inShop(t, f, whole, "", "type list", whole+"\ntype list")
	if err != nil || file != "shop/list.go" || !strings.Contains(text, "if false {") {
		t.Errorf("moved to another file: %v\n%s\n%s", err, file, text)
	}
}

func TestFaultThatDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fault
		want  string // part of the error
	}{
		{"no such function", fault{in: "shop.close", returns: "true"}, "package shop declares close 0 times"},
		{"no such package", fault{in: "market.open", returns: "true"}, "package market declares open 0 times"},
		{"found nowhere", fault{in: "shop.open", find: "hour < 9"}, "shop.open has 0 places, and not one, for this:\n\thour < 9"},
		{"found twice", fault{in: "shop.open", find: "hour <", put: "hour >"}, "shop.open has 2 places"},
		{"two calls to leave out", fault{in: "shop.open", without: "weekday"}, "shop.open has 2 places"},
		{"no operand and no statement", fault{in: "shop.weekday", without: "hour"}, "shop.weekday has 0 places"},
		{"no call", fault{in: "shop.open", call: "append", answers: "nil"}, "shop.open has 0 places"},
		{"a constant returns nothing", fault{in: "shop.most", returns: "3"}, "shop.most has 0 places"},
		{"no change", fault{in: "shop.open", find: "hour < 8", put: "hour < 8"}, "stays as it is"},
		{"no Go", fault{in: "shop.open", find: "hour < 8", put: "hour <"}, "is no Go"},
		{"no fault", fault{in: "shop.open"}, "one of returns, without, call and find"},
		{"two faults", fault{in: "shop.open", returns: "true", find: "hour < 8"}, "one of returns, without, call and find"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := inShop(t, tt.fault); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q is not in the error: %v", tt.want, err)
			}
		})
	}
}
