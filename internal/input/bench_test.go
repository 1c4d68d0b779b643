package input

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"
)

// benchFiles are the definitions to measure with: the fixture, and of the real ones in the folder that SLUICE_CORPUS names
// those of about 20 kB, 100 kB and 1 MB, as far as it has any.
func benchFiles(b *testing.B) map[string][]byte {
	b.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
	files := map[string][]byte{"fixture": read("testdata/widgets.yaml")}
	dir := os.Getenv("SLUICE_CORPUS")
	if dir == "" {
		return files
	}
	found := map[string]string{}
	closest := map[string]int64{}
	for name, size := range map[string]int64{"20kB": 20_000, "100kB": 100_000, "1MB": 1_000_000} {
		closest[name] = size
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if off := max(info.Size()-size, size-info.Size()); off < closest[name] {
				closest[name], found[name] = off, path
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for name, path := range found {
		files[name] = read(path)
	}
	return files
}

// BenchmarkDecode compares decoding a definition with what sigs.k8s.io/yaml and sigs.k8s.io/json take for it.
func BenchmarkDecode(b *testing.B) {
	for name, data := range benchFiles(b) {
		measure := func(way string, decode func() error) {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if err := decode(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		measure("sluice", func() error {
			_, err := Decode(b.Context(), "f", data)
			return err
		})
		measure("library", func() error {
			out, err := kyaml.YAMLToJSONStrict(data)
			if err != nil {
				return err
			}
			_, err = kjson.UnmarshalStrict(out, &apiextensionsv1.CustomResourceDefinition{})
			return err
		})
	}
}
