package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"sluice.dev/apply"
)

// diffLook says how differences are shown.
type diffLook struct {
	context     int
	onlyChanges bool
	masks       []string
}

func (l *diffLook) addTo(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVar(&l.context, "unified", 3, "number of unchanged lines around each change; -1 for all")
	fs.BoolVar(&l.onlyChanges, "only-changes", false, "show the content of changed objects, and only the names of created or deleted ones")
	fs.StringArrayVar(&l.masks, "mask", nil, "field with values to hide, as a JSON pointer such as /data/password; * stands for all keys or items (may be repeated). Diff never shows values of Secrets")
}

func (l *diffLook) checkFlags() error {
	if l.context < -1 {
		return fmt.Errorf("--unified %d: it is 0 or more, or -1 for all lines", l.context)
	}
	for _, m := range l.masks {
		if !strings.HasPrefix(m, "/") || m == "/" {
			return fmt.Errorf("--mask %q: it is a JSON pointer such as /data/password", m)
		}
	}
	return nil
}

// maskDifferences masks values in the differences.
func (l *diffLook) maskDifferences(list []apply.Difference) error {
	if len(l.masks) == 0 {
		return nil
	}
	for i := range list {
		d := &list[i]
		before, after, err := bothDecoded(d.Before, d.After)
		if err != nil {
			return fmt.Errorf("%s: %w", d.ID, err)
		}
		for _, m := range l.masks {
			keys := strings.Split(m[1:], "/")
			for k := range keys {
				keys[k] = strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[k])
			}
			maskBoth(before, after, keys)
		}
		if d.Before, err = yamlOf(before); err == nil {
			d.After, err = yamlOf(after)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.ID, err)
		}
	}
	return nil
}

func bothDecoded(before, after string) (b, a any, err error) {
	return b, a, errors.Join(yaml.Unmarshal([]byte(before), &b), yaml.Unmarshal([]byte(after), &a))
}

func yamlOf(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	text, err := yaml.Marshal(v)
	return string(text), err
}

// maskBoth replaces what stands at a path in both, so that whether it differs is still to be seen.
func maskBoth(before, after any, keys []string) {
	for _, key := range keysOf(before, after, keys[0]) {
		b, putBefore := partAt(before, key)
		a, putAfter := partAt(after, key)
		if len(keys) > 1 {
			maskBoth(b, a, keys[1:])
			continue
		}
		x, errB := json.Marshal(b)
		y, errA := json.Marshal(a)
		hidden := "(hidden)"
		if putBefore != nil && putAfter != nil && (errB != nil || errA != nil || string(x) != string(y)) {
			hidden = "(hidden, another value)"
		}
		if putBefore != nil {
			putBefore("(hidden)")
		}
		if putAfter != nil {
			putAfter(hidden)
		}
	}
}

// keysOf are the keys, or indexes as numbers, that a part of a path means.
func keysOf(before, after any, key string) []string {
	if key != "*" {
		return []string{key}
	}
	var out []string
	for _, v := range []any{before, after} {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				out = append(out, k)
			}
		case []any:
			for i := range v {
				out = append(out, fmt.Sprint(i))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// partAt returns the value at a key or an index, and what puts a text in its place; nil if there is none.
func partAt(v any, key string) (value any, put func(text string)) {
	switch v := v.(type) {
	case map[string]any:
		if value, ok := v[key]; ok {
			return value, func(text string) { v[key] = text }
		}
	case []any:
		for i := range v {
			if fmt.Sprint(i) == key {
				return v[i], func(text string) { v[i] = text }
			}
		}
	}
	return nil, nil
}

// unifiedDiff is a difference as a unified diff.
func (l *diffLook) unifiedDiff(d *apply.Difference) (string, error) {
	if l.onlyChanges && (d.Before == "" || d.After == "") {
		word := "created"
		if d.After == "" {
			word = "deleted"
		}
		return fmt.Sprintf("# %s will be %s\n", d.ID, word), nil
	}
	context := l.context
	if context < 0 {
		context = strings.Count(d.Before, "\n") + strings.Count(d.After, "\n")
	}
	lines := func(text string) []string {
		if text == "" {
			return nil
		}
		return difflib.SplitLines(strings.TrimSuffix(text, "\n"))
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(d.Before), B: lines(d.After), FromFile: "cluster " + d.String(), ToFile: "source " + d.String(), Context: context})
}
