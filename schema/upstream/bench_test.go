package upstream_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema/upstream"
)

func databaseCRD(tb testing.TB) *apiextensionsv1.CustomResourceDefinition {
	tb.Helper()
	crd := decodeYAML[apiextensionsv1.CustomResourceDefinition](tb, readFile(tb, "testdata/database.yaml"))
	return &crd
}

func readFile(tb testing.TB, name string) string {
	tb.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func database(tb testing.TB) (*apiextensionsv1.JSONSchemaProps, upstream.Options, map[string]any) {
	tb.Helper()
	schema, o, err := upstream.ForCRD(databaseCRD(tb), "v1", nil)
	if err != nil {
		tb.Fatal(err)
	}
	return schema, o, object(tb, readFile(tb, "testdata/database-object.yaml"))
}

// cpu reports the processor time of an operation, which does not depend on what else the machine does.
func cpu(b *testing.B) func() {
	start := processTime(b)
	return func() {
		b.ReportMetric(float64((processTime(b)-start).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
	}
}

func processTime(b testing.TB) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkTouchUpdate(b *testing.B) {
	schema, o, obj := database(b)
	v := newValidator(b, schema, o)
	for _, ratchet := range []bool{false, true} {
		name := "strict"
		if ratchet {
			name = "ratcheting"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if r, err := v.TouchUpdate(b.Context(), obj, ratchet); err != nil || r.Refused() || len(r.Pruned) > 0 {
					b.Fatal(r.Pruned, r.Errors, err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
		})
	}
}

// BenchmarkScan touches objects on all processors at once, with and without code of our own for simple steps.
func BenchmarkScan(b *testing.B) {
	schema, o, obj := database(b)
	v := newValidator(b, schema, o)
	for name, v := range map[string]*upstream.Validator{"simple": v, "exact": v.Exact()} {
		b.Run(name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if r, err := v.TouchUpdate(b.Context(), obj, true); err != nil || r.Refused() {
						b.Error(r.Errors, err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
		})
	}
}

// BenchmarkRefused is a scan in which every object is refused, for a value that ratcheting would tolerate and a field that it
// would not.
func BenchmarkRefused(b *testing.B) {
	schema, o, obj := database(b)
	schema = schema.DeepCopy()
	spec := schema.Properties["spec"]
	spec.Required = append(spec.Required, "owner")
	spec.Properties["owner"] = props{Type: "string"}
	engine := spec.Properties["engine"]
	engine.Enum = engine.Enum[1:]
	spec.Properties["engine"] = engine
	schema.Properties["spec"] = spec
	v := newValidator(b, schema, o)
	for _, ratchet := range []bool{false, true} {
		name := "strict"
		if ratchet {
			name = "ratcheting"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if r, err := v.TouchUpdate(b.Context(), obj, ratchet); err != nil || !r.Refused() {
					b.Fatal(r.Errors, err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
		})
	}
}

// BenchmarkDefaulted is a scan in which every object gets a default that it does not have yet.
func BenchmarkDefaulted(b *testing.B) {
	schema, o, obj := database(b)
	schema = schema.DeepCopy()
	spec := schema.Properties["spec"]
	spec.Properties["owner"] = props{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"nobody"`)}}
	v := newValidator(b, schema, o)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		if r, err := v.TouchUpdate(b.Context(), obj, true); err != nil || r.Refused() {
			b.Fatal(r.Errors, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}

func BenchmarkCreate(b *testing.B) {
	schema, o, obj := database(b)
	v := newValidator(b, schema, o)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		if r, err := v.Create(b.Context(), obj); err != nil || r.Refused() {
			b.Fatal(r.Errors, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}

func BenchmarkRead(b *testing.B) {
	schema, o, obj := database(b)
	v := newValidator(b, schema, o)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		if _, _, _, err := v.Read(obj); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}

func BenchmarkConfirm(b *testing.B) {
	schema, o, obj := database(b)
	witness := map[string]any{
		"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": map[string]any{"name": "w"},
		"spec": map[string]any{"engine": "sqlite", "replicas": int64(2), "storage": map[string]any{"size": "1Gi"}},
	}
	quiet := map[string]any{
		"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": map[string]any{"name": "w"},
		"status": map[string]any{"replicas": int64(2)},
	}
	for _, tt := range []struct {
		name string
		obj  map[string]any
	}{{"rules", witness}, {"no rules", quiet}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			p := upstream.NewProjector(schema, o)
			defer cpu(b)()
			for b.Loop() {
				v, err := p.For(tt.obj)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := v.Create(b.Context(), tt.obj); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	schema, o, obj := database(b)
	defer cpu(b)()
	for b.Loop() {
		v := newValidator(b, schema, o)
		if _, err := v.Create(b.Context(), obj); err != nil {
			b.Fatal(err)
		}
	}
}
