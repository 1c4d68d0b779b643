package check

import (
	"testing"

	"sluice.dev/internal/input"
)

func TestTheNearestFileIsThatOfTheReleaseBefore(t *testing.T) {
	for _, test := range []struct {
		file  string
		among []string
		want  string
	}{
		{"a/x.yaml", nil, ""},
		{"a/x.yaml", []string{"b/y.yaml"}, "b/y.yaml"},
		{"a/x.yaml", []string{"a/y.yaml", "b/x.yaml", "a/b/x.yaml"}, "a/b/x.yaml"},
		{"releases/op-1.29.1.yaml", []string{"releases/op-1.9.0.yaml", "releases/op-1.29.0.yaml", "releases/op-1.30.0.yaml", "config/op.yaml"}, "releases/op-1.29.0.yaml"},
		{"releases/op-1.30.0.yaml", []string{"releases/op-1.9.0.yaml", "releases/op-1.10.0.yaml", "releases/op-1.29.0-rc1.yaml", "releases/op-1.29.0.yaml", "releases/op-1.3.0.yaml"}, "releases/op-1.29.0.yaml"},
		{"v2/crd.yaml", []string{"v1beta1/crd.yaml", "v1/crd.yaml"}, "v1beta1/crd.yaml"},
		{"v10/crd.yaml", []string{"v9/crd.yaml", "v08/crd.yaml"}, "v9/crd.yaml"},
	} {
		for _, turned := range []bool{false, true} {
			var among []*input.Document
			for _, name := range test.among {
				d := &input.Document{File: name}
				if among = append(among, d); turned {
					copy(among[1:], among[:len(among)-1])
					among[0] = d
				}
			}
			got := ""
			if d := nearest(&input.Document{File: test.file}, among); d != nil {
				got = d.File
			}
			if got != test.want {
				t.Errorf("%s: the nearest of %v is %q, want %q", test.file, test.among, got, test.want)
			}
		}
	}
}
