package life

import (
	"bytes"
	"fmt"
	"go/format"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// notInIdentifiers are characters that the name of a package cannot have.
var notInIdentifiers = regexp.MustCompile(`[^a-z0-9_]`)

// ownNames are the names that the generated code declares besides the gates.
var ownNames = []string{"Release", "Declaration"}

// goCode writes the constants of the features and their declaration for package feature/gate.
func (p *Project) goCode() ([]byte, error) {
	abs, err := filepath.Abs(p.File.path(p.File.Output.Go))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code %s\n\npackage %s\n\n", p.header(), notInIdentifiers.ReplaceAllString(strings.ToLower(filepath.Base(filepath.Dir(abs))), ""))
	b.WriteString("import (\n\t\"k8s.io/component-base/featuregate\"\n\n\t\"sluice.dev/api/v1alpha1\"\n\t\"sluice.dev/feature/gate\"\n)\n\n")
	if r := p.File.Spec.Release; r != "" {
		fmt.Fprintf(&b, "// Release is the release of component %s that this code belongs to.\nconst Release = %q\n\n", p.File.Component, r)
	}
	if len(p.Declaration.Features) > 0 {
		fmt.Fprintf(&b, "// The features of component %s.\nconst (\n", p.File.Component)
		for i := range p.Declaration.Features {
			f := &p.Declaration.Features[i]
			for _, own := range ownNames {
				if f.Gate == own {
					file, line := p.File.place(fmt.Sprintf("features[%d].gate", i))
					return nil, Problems{{file, line, fmt.Sprintf("%s is what the generated Go code declares itself: choose another name", own)}}
				}
			}
			comment := f.Gate
			if f.Description != "" {
				comment += ": " + strings.ReplaceAll(strings.TrimSpace(f.Description), "\n", "\n\t// ")
			}
			if x := p.Model.Feature(f.Gate); x != nil {
				text := stageText(x)
				comment += "\n\t//\n\t// " + strings.ToUpper(text[:1]) + text[1:] + "."
			}
			fmt.Fprintf(&b, "\t// %s\n\t%s featuregate.Feature = %q\n", comment, f.Gate, f.Gate)
		}
		b.WriteString(")\n\n")
	}
	fmt.Fprintf(&b, "// Declaration returns component %s with its features, for gate.New and featuretest.New.\nfunc Declaration() gate.Declaration {\n", p.File.Component)
	body := literal(reflect.ValueOf(p.Declaration))
	for _, v := range []struct{ use, text string }{{"&on,", "on := true\n"}, {"&off,", "off := false\n"}} {
		if strings.Contains(strings.ReplaceAll(body, "}", ","), v.use) {
			b.WriteString("\t" + v.text)
		}
	}
	b.WriteString("\treturn " + body + "\n}\n")
	return format.Source(b.Bytes())
}

// literal writes a value of the types of a declaration as Go code, without empty fields.
func literal(v reflect.Value) string {
	switch v.Kind() { //nolint:exhaustive // definitions hold no others, which a test would tell
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Bool {
			if v.Elem().Bool() {
				return "&on"
			}
			return "&off"
		}
		return "&" + literal(v.Elem())
	case reflect.Slice:
		var b strings.Builder
		b.WriteString(v.Type().String() + "{")
		for i := range v.Len() {
			item := literal(v.Index(i))
			if v.Type().Elem().Kind() == reflect.Struct {
				item = strings.TrimPrefix(item, v.Type().Elem().String())
				b.WriteString("\n" + item + ",")
				continue
			}
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(item)
		}
		if v.Type().Elem().Kind() == reflect.Struct && v.Len() > 0 {
			b.WriteString("\n")
		}
		return b.String() + "}"
	case reflect.Struct:
		var fields []string
		multi := false
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && v.Type().Field(i).IsExported() {
				text := v.Type().Field(i).Name + ": " + literal(f)
				multi = multi || strings.Contains(text, "\n") || len(text) > 60
				fields = append(fields, text)
			}
		}
		if multi || len(fields) > 6 {
			return v.Type().String() + "{\n" + strings.Join(fields, ",\n") + ",\n}"
		}
		return v.Type().String() + "{" + strings.Join(fields, ", ") + "}"
	}
	return fmt.Sprintf("nil /* %s */", v.Type())
}
