package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const listPath = "/apis/example.sluice.dev/v1/databases"

// fakeAPI is an API server that lists databases. Its tokens are the numbers of the objects to go on with.
type fakeAPI struct {
	objects func(i int) string
	n       int
	// hook sees the requests, the first is number 1. It returns true if it has answered.
	hook func(number int, w http.ResponseWriter, r *http.Request) bool

	mu     sync.Mutex
	number int
	limits []int
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.number++
	number := f.number
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	f.limits = append(f.limits, limit)
	f.mu.Unlock()
	if r.URL.Path != listPath || limit <= 0 {
		http.NotFound(w, r)
		return
	}
	if f.hook != nil && f.hook(number, w, r) {
		return
	}
	f.page(w, r, limit)
}

// page answers in full.
func (f *fakeAPI) page(w http.ResponseWriter, r *http.Request, limit int) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(f.text(from, limit)))
}

func (f *fakeAPI) text(from, limit int) string {
	to := min(from+limit, f.n)
	var items []string
	for i := from; i < to; i++ {
		items = append(items, f.objects(i))
	}
	meta := `{"resourceVersion":"1"}`
	if to < f.n {
		meta = fmt.Sprintf(`{"resourceVersion":"1","continue":"%d","remainingItemCount":%d}`, to, f.n-to)
	}
	return `{"apiVersion":"example.sluice.dev/v1","items":[` + strings.Join(items, ",") + `],"kind":"DatabaseList","metadata":` + meta + "}\n"
}

// status answers with an error in the form of Kubernetes.
func status(w http.ResponseWriter, code int, reason, extra string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{%s},"status":"Failure","message":"the server says %s","reason":%q,"code":%d}`, extra, reason, reason, code)
}

// cut sends the first n bytes of an answer and breaks the connection off.
func (f *fakeAPI) cut(w http.ResponseWriter, r *http.Request, n int) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	text := f.text(from, limit)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(text[:min(n, len(text)-2)]))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// database is fine under both versions; every third one is refused by the new one, every fifth one is pruned.
func database(i int) string {
	engine, tier := "postgres", ""
	if i%3 == 0 {
		engine = "mariadb"
	}
	if i%5 == 0 {
		tier = `,"tier":"gold"`
	}
	return fmt.Sprintf(`{"apiVersion":"example.sluice.dev/v1","kind":"Database","metadata":{"name":"db-%04d","namespace":"default","uid":"u","resourceVersion":"1",`+
		`"generation":1,"creationTimestamp":"2025-03-04T05:06:07Z"},"spec":{"engine":%q,"replicas":1,"storage":{"size":"1Gi"%s}}}`, i, engine, tier)
}

func readCRD(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	b, err := os.ReadFile("../../examples/upgrade/" + name)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(b, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func (f *fakeAPI) scan(t *testing.T, ctx context.Context, next string, o ScanOptions) (Scan, error) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := For(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	o.Pages = 1
	return c.Scan(ctx, readCRD(t, "v1.yaml"), readCRD(t, next), o)
}

func TestScanCountsEveryObjectOnce(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 51, 1000, 7013} {
		for _, size := range []int{0, 1, 7, 500} {
			if size == 1 && n > 100 {
				continue
			}
			t.Run(fmt.Sprintf("%d in pages of %d", n, size), func(t *testing.T) {
				f := &fakeAPI{n: n, objects: database}
				var last, calls int64
				s, err := f.scan(t, t.Context(), "v2-unsafe.yaml", ScanOptions{PageSize: size, Keep: 3, Progress: func(checked, remaining int64) {
					calls++
					if checked <= last || remaining >= 0 && checked+remaining != int64(n) {
						t.Errorf("progress %d, %d remain after %d", checked, remaining, last)
					}
					last = checked
				}})
				if err != nil {
					t.Fatal(err)
				}
				if last != int64(n) {
					t.Errorf("progress ends at %d", last)
				}
				fates := s.Fates
				s.Fates = nil
				want := Scan{Version: "v1", Target: "v1", Checked: int64(n), Strict: int64(n+2) / 3, Tolerated: int64(n+2) / 3, Dropped: int64(n+4) / 5}
				if diff := cmp.Diff(want, s); diff != "" {
					t.Error(diff)
				}
				var names []string
				for _, fate := range fates {
					names = append(names, fate.Name)
				}
				all := []string{"default/db-0000", "default/db-0003", "default/db-0005", "default/db-0006", "default/db-0010"}
				all = slices.DeleteFunc(all, func(name string) bool { i, _ := strconv.Atoi(name[len("default/db-"):]); return i >= n })
				if diff := cmp.Diff(all, names, cmp.Transformer("text", func(l []string) string { return strings.Join(l, " ") })); diff != "" {
					t.Errorf("kept: %s", diff)
				}
			})
		}
	}
}

// A value that no rule can be evaluated on in bounded time makes its object undecided, and no other one.
func TestScanLeavesOutWhatTakesTooLong(t *testing.T) {
	f := &fakeAPI{n: 6, objects: func(i int) string {
		if i == 4 {
			return strings.Replace(database(i), "1Gi", "1e999999999", 1)
		}
		return database(i)
	}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := For(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	live, next := readCRD(t, "v1.yaml"), readCRD(t, "v1.yaml")
	root := next.Spec.Versions[0].Schema.OpenAPIV3Schema
	root.XValidations = append(root.XValidations, apiextensionsv1.ValidationRule{Rule: "quantity(self.spec.storage.size).isGreaterThan(quantity('1'))"})
	s, err := c.Scan(t.Context(), live, next, ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Checked != 6 || s.Unjudged != 1 || s.Refused+s.Strict != 0 || len(s.Fates) != 1 || s.Fates[0].Name != "default/db-0004" || !strings.Contains(s.Fates[0].Unjudged, "too long") {
		t.Errorf("%+v", s)
	}
}

func TestScanGivesTheSameInEveryRun(t *testing.T) {
	var first Scan
	for i := range 5 {
		f := &fakeAPI{n: 3000, objects: database}
		s, err := f.scan(t, t.Context(), "v2-unsafe.yaml", ScanOptions{PageSize: 100 * (i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = s
		}
		if diff := cmp.Diff(first, s); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPagesFollowTheSizeOfTheObjects(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		n       int
		objects func(int) string
		fits    func(limits []int) bool
	}{
		"small": {20_000, database, func(l []int) bool { return l[0] == firstPage && slices.Max(l) > 1000 && slices.Max(l) <= maxPage }},
		"huge": {60, func(i int) string { return strings.Replace(database(i), `"spec":{`, `"spec":{"version":"`+big+`",`, 1) }, func(l []int) bool {
			return l[0] == firstPage && slices.Max(l[1:]) <= 4
		}},
		"larger ones later": {10_000, func(i int) string {
			if i < 4000 {
				return database(i)
			}
			return strings.Replace(database(i), `"spec":{`, `"spec":{"version":"`+big[:4<<10]+`",`, 1)
		}, func(l []int) bool { return slices.Max(l) > 3000 && l[len(l)-1] < 2000 }},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAPI{n: c.n, objects: c.objects}
			s, err := f.scan(t, t.Context(), "v2-unsafe.yaml", ScanOptions{})
			if err != nil || s.Checked != int64(c.n) {
				t.Fatalf("%d objects, error %v", s.Checked, err)
			}
			if !c.fits(f.limits) {
				t.Errorf("limits %v", f.limits)
			}
		})
	}
}

func TestScanBearsWhatCanBeBorne(t *testing.T) {
	const n = 300
	const pages = 3
	type hook = func(f *fakeAPI, number int, w http.ResponseWriter, r *http.Request) bool
	for name, c := range map[string]struct {
		hook              hook
		requests, renewed int
	}{
		"too many requests": {func(_ *fakeAPI, number int, w http.ResponseWriter, _ *http.Request) bool {
			if number != 2 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			status(w, http.StatusTooManyRequests, "TooManyRequests", "")
			return true
		}, pages + 1, 0},
		"expired, with a way to go on": {func(_ *fakeAPI, number int, w http.ResponseWriter, r *http.Request) bool {
			if number != 2 {
				return false
			}
			status(w, http.StatusGone, "Expired", `"continue":"`+r.URL.Query().Get("continue")+`"`)
			return true
		}, pages + 1, 1},
		"cut in the first page": {func(f *fakeAPI, number int, w http.ResponseWriter, r *http.Request) bool {
			if number == 1 {
				f.cut(w, r, 20_000)
			}
			return false
		}, pages + 1, 0},
		"cut twice in the second page, once before what was read": {func(f *fakeAPI, number int, w http.ResponseWriter, r *http.Request) bool {
			if number == 2 || number == 3 {
				f.cut(w, r, []int{20_000, 9_000}[number-2])
			}
			return false
		}, pages + 2, 0},
		"cut at the very end": {func(f *fakeAPI, number int, w http.ResponseWriter, r *http.Request) bool {
			if number == 3 {
				f.cut(w, r, 1<<30)
			}
			return false
		}, pages + 1, 0},
		"an empty page": {func(f *fakeAPI, number int, w http.ResponseWriter, r *http.Request) bool {
			if number != 2 {
				return false
			}
			fmt.Fprintf(w, `{"items":[],"kind":"DatabaseList","metadata":{"continue":"0%s"}}`, r.URL.Query().Get("continue"))
			return true
		}, pages + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAPI{n: n, objects: database}
			f.hook = func(number int, w http.ResponseWriter, r *http.Request) bool { return c.hook(f, number, w, r) }
			s, err := f.scan(t, t.Context(), "v2-unsafe.yaml", ScanOptions{PageSize: n / pages})
			if err != nil {
				t.Fatal(err)
			}
			s.Fates = nil
			if diff := cmp.Diff(Scan{Version: "v1", Target: "v1", Checked: n, Strict: n / 3, Tolerated: n / 3, Dropped: n / 5, Renewed: c.renewed}, s); diff != "" {
				t.Error(diff)
			}
			if f.number != c.requests {
				t.Errorf("%d requests, want %d", f.number, c.requests)
			}
		})
	}
}

func TestObjectsThatChangeBetweenPagesAreCountedOnce(t *testing.T) {
	var mu sync.Mutex
	changed := false
	f := &fakeAPI{n: 300, objects: func(i int) string {
		mu.Lock()
		defer mu.Unlock()
		if changed {
			return strings.ReplaceAll(database(i), "mariadb", "postgres")
		}
		return database(i)
	}}
	f.hook = func(number int, _ http.ResponseWriter, _ *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		changed = number > 1
		return false
	}
	s, err := f.scan(t, t.Context(), "v2-unsafe.yaml", ScanOptions{PageSize: 150})
	if err != nil || s.Checked != 300 || s.Strict != 50 {
		t.Errorf("%d objects, %d refused, error %v", s.Checked, s.Strict, err)
	}
}

// TestScanFailsAsAWhole holds that what goes wrong gives one error in one line, and never part of a result.
func TestScanFailsAsAWhole(t *testing.T) {
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	says := func(text string) func(error) bool {
		return func(err error) bool { return strings.Contains(err.Error(), text) }
	}
	isCut := func(err error) bool { var cut cutError; return errors.As(err, &cut) }
	reply := func(text string) func(*fakeAPI, http.ResponseWriter, *http.Request) {
		return func(_ *fakeAPI, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		}
	}
	items := func(text string) func(*fakeAPI, http.ResponseWriter, *http.Request) {
		return reply(`{"items":[` + database(0) + "," + text + `],"kind":"DatabaseList","metadata":{}}`)
	}
	refuse := func(code int, reason string) func(*fakeAPI, http.ResponseWriter, *http.Request) {
		return func(_ *fakeAPI, w http.ResponseWriter, _ *http.Request) { status(w, code, reason, "") }
	}
	for name, c := range map[string]struct {
		// answer is what every request from the second page on gets.
		answer func(f *fakeAPI, w http.ResponseWriter, r *http.Request)
		want   func(error) bool
	}{
		"forbidden":                       {refuse(http.StatusForbidden, "Forbidden"), is(ErrNoAccess)},
		"unauthorized":                    {refuse(http.StatusUnauthorized, "Unauthorized"), is(ErrNoAccess)},
		"gone":                            {refuse(http.StatusNotFound, "NotFound"), apierrors.IsNotFound},
		"expired, without a way to go on": {refuse(http.StatusGone, "Expired"), is(ErrExpired)},
		"expired for ever": {func(_ *fakeAPI, w http.ResponseWriter, _ *http.Request) {
			status(w, http.StatusGone, "Expired", `"continue":"9"`)
		}, is(ErrExpired)},
		"always cut":          {func(f *fakeAPI, w http.ResponseWriter, r *http.Request) { f.cut(w, r, 5000) }, isCut},
		"an internal error":   {refuse(http.StatusNotImplemented, "InternalError"), says("InternalError")},
		"no JSON":             {reply("<html>please log in</html>"), is(errList)},
		"nothing":             {reply(""), isCut},
		"another kind":        {reply(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","items":[]}`), is(errList)},
		"junk in an object":   {items(`{"metadata":{"name":"x"},"spec":{"engine":bad}}`), is(errList)},
		"brackets that cross": {items(`{"metadata":{"name":"x"],"spec":{}}}`), is(errList)},
		"an object of no map": {items(`7`), says("cannot be read")},
		"an object of null":   {items(`null`), says("no name")},
		"a nameless object":   {items(`{"metadata":{},"spec":{}}`), says("no name")},
		"a deep object":       {items(`{"metadata":{"name":"x"},"spec":` + strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_001)), is(errList)},
		"the same for ever":   {reply(`{"items":[],"kind":"DatabaseList","metadata":{"continue":"100"}}`), is(errList)},
		"a page that goes on for ever": {func(_ *fakeAPI, w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"items":[],"kind":"DatabaseList","metadata":{"continue":"%sx"}}`, r.URL.Query().Get("continue"))
		}, is(errList)},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAPI{n: 300, objects: database}
			f.hook = func(number int, w http.ResponseWriter, r *http.Request) bool {
				if number == 1 {
					return false
				}
				c.answer(f, w, r)
				return true
			}
			s, err := f.scan(t, t.Context(), "v2-unsafe.yaml", ScanOptions{PageSize: 100})
			if err == nil || !c.want(err) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(Scan{}, s); diff != "" {
				t.Errorf("half a result: %s", diff)
			}
		})
	}
}

func TestAPageThatChangesWhileItIsReadAgainIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"other objects": `{"items":[` + strings.Repeat(database(999)+",", 99) + database(1) + `],"kind":"DatabaseList","metadata":{}}`,
		"fewer objects": `{"items":[],"kind":"DatabaseList","metadata":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAPI{n: 100, objects: database}
			f.hook = func(number int, w http.ResponseWriter, r *http.Request) bool {
				if number == 1 {
					f.cut(w, r, 20_000)
				}
				_, _ = w.Write([]byte(text))
				return true
			}
			if s, err := f.scan(t, t.Context(), "v2-unsafe.yaml", ScanOptions{PageSize: 100}); !errors.Is(err, errChanged) || s.Checked > 0 {
				t.Errorf("%d objects, error %v", s.Checked, err)
			}
		})
	}
}

func TestTheFirstThingThatIsWrongIsTold(t *testing.T) {
	for range 20 {
		f := &fakeAPI{n: 1000, objects: func(i int) string {
			if i >= 500 && i%2 == 0 {
				return fmt.Sprintf(`{"metadata":{"name":"x"},"number":%dx}`, i)
			}
			return database(i)
		}}
		f.hook = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("continue") == "600" {
				status(w, http.StatusForbidden, "Forbidden", "")
				return true
			}
			return false
		}
		_, err := f.scan(t, t.Context(), "v2-unsafe.yaml", ScanOptions{PageSize: 100})
		if err == nil || errors.Is(err, ErrNoAccess) {
			t.Fatalf("error %v", err)
		}
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeAPI{n: 1000, objects: database}
	f.hook = func(number int, _ http.ResponseWriter, r *http.Request) bool {
		if number < 3 {
			return false
		}
		cancel()
		<-r.Context().Done() // the client goes away
		return true
	}
	if s, err := f.scan(t, ctx, "v2-unsafe.yaml", ScanOptions{PageSize: 100}); !errors.Is(err, context.Canceled) || s.Checked > 0 {
		t.Errorf("%d objects, error %v", s.Checked, err)
	}
}
