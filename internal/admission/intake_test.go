package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/limit"
)

// review is an AdmissionReview, made longer by so many bytes.
func review(t *testing.T, more int) []byte {
	t.Helper()
	text, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &admissionv1.AdmissionRequest{UID: "u"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(text, bytes.Repeat([]byte(" "), more)...)
}

func allow(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{UID: r.UID, Allowed: true}
}

// serve is a server with an intake; it is told of every request that has begun to be read.
func serve(t *testing.T, in *Intake, answer func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) (url string, client *http.Client) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Serve(w, r, in, answer) }))
	t.Cleanup(s.Close)
	return s.URL, s.Client()
}

func post(ctx context.Context, client *http.Client, url string, body io.Reader) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waiting for %s", what)
		}
	}
}

func TestThoseWhoSendSlowlyKeepNobodyWaiting(t *testing.T) {
	in := NewIntake(2)
	url, client := serve(t, in, allow)
	// Many more than are judged at once promise a whole review and send little of it.
	const slow = 20
	ended := make(chan error, slow)
	var feeds []*io.PipeWriter
	for range slow {
		body, feed := io.Pipe()
		feeds = append(feeds, feed)
		go func() {
			_, _ = feed.Write([]byte(`{"kind":`)) // the rest does not come
		}()
		go func() {
			_, err := post(t.Context(), client, url+"?timeout=30s", body)
			ended <- err
		}()
	}
	eventually(t, "all of them to be read", func() bool { return len(in.memory) == slow })
	for _, more := range []int{0, 3 << 20} {
		if code, err := post(t.Context(), client, url+"?timeout=30s", bytes.NewReader(review(t, more))); code != http.StatusOK || err != nil {
			t.Errorf("%d bytes more: code %d, error %v", more, code, err)
		}
	}
	if len(ended) > 0 {
		t.Errorf("%d of the slow ones have ended", len(ended))
	}
	for _, f := range feeds {
		_ = f.CloseWithError(errors.New("they give up"))
	}
	for range slow {
		if err := <-ended; err == nil {
			t.Error("one that gave up was answered")
		}
	}
	eventually(t, "the memory to be given back", func() bool { return len(in.memory) == 0 && len(in.turns) == 0 })
}

func TestABodyThatDoesNotComeInItsShareOfTheTimeIsGivenUp(t *testing.T) {
	in := NewIntake(1)
	url, client := serve(t, in, allow)
	body, feed := io.Pipe()
	defer feed.Close() //nolint:errcheck // the other end is gone
	if code, err := post(t.Context(), client, url+"?timeout=100ms", body); code != http.StatusBadRequest || err != nil {
		t.Errorf("code %d, error %v", code, err)
	}
	eventually(t, "the memory to be given back", func() bool { return len(in.memory) == 0 })
}

// A review that takes long to judge has a connection that lasts longer than its body may take to arrive.
func TestWhatIsJudgedOutlastsTheTimeForReading(t *testing.T) {
	done := make(chan error, 1)
	url, client := serve(t, NewIntake(1), func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		end, _ := ctx.Deadline()
		// Until half of the time is over, which is more than the share of reading.
		half, cancel := context.WithDeadline(ctx, end.Add(-3*time.Second/2))
		defer cancel()
		<-half.Done()
		done <- ctx.Err()
		return allow(ctx, r)
	})
	if code, err := post(t.Context(), client, url+"?timeout=3s", bytes.NewReader(review(t, 0))); code != http.StatusOK || err != nil {
		t.Errorf("code %d, error %v", code, err)
	}
	if err := <-done; err != nil {
		t.Errorf("while it was judged: %v", err)
	}
}

func TestMemoryIsTakenAsABodyArrivesAndIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		body   int
		length int64
		chunks int
		err    error
	}{
		"nothing":              {0, 0, 1, nil},
		"little":               {10, 10, 1, nil},
		"little, unannounced":  {10, -1, 1, nil},
		"more than a chunk":    {chunk + 1, chunk + 1, 2, nil},
		"a chunk, unannounced": {chunk, -1, 2, nil},
		"all that is allowed":  {MaxReview, MaxReview, MaxReview / chunk, nil},
		"and unannounced":      {MaxReview, -1, MaxReview / chunk, nil},
		"too much":             {MaxReview + 1, -1, MaxReview / chunk, limit.ErrTooLarge},
		"too much, announced":  {1, MaxReview + 1, 0, limit.ErrTooLarge},
		"more than announced":  {3 * chunk, chunk, 2, limit.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			in := NewIntake(1)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.NopCloser(strings.NewReader(strings.Repeat("x", test.body))))
			r.ContentLength = test.length
			body, done, err := in.readBody(t.Context(), time.Minute, httptest.NewRecorder(), r)
			if !errors.Is(err, test.err) || err == nil && len(body) != test.body {
				t.Errorf("%d bytes, error %v", len(body), err)
			}
			if got := len(in.memory); got != test.chunks {
				t.Errorf("it holds %d chunks, want %d", got, test.chunks)
			}
			if cap(body) > test.chunks*chunk+chunk {
				t.Errorf("%d bytes for %d chunks", cap(body), test.chunks)
			}
			done()
			if len(in.memory) != 0 {
				t.Errorf("%d chunks are not given back", len(in.memory))
			}
		})
	}
}

func TestWhereThereIsNoRoomNothingIsRead(t *testing.T) {
	for name, full := range map[string]func(*Intake) chan struct{}{
		"no memory": func(in *Intake) chan struct{} { return in.memory }, "no turn": func(in *Intake) chan struct{} { return in.turns },
	} {
		in := NewIntake(1)
		room := full(in)
		for range cap(room) {
			room <- struct{}{}
		}
		recorder := httptest.NewRecorder()
		Serve(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=50ms", bytes.NewReader(review(t, 0))), in, allow)
		if recorder.Code != http.StatusServiceUnavailable || len(room) != cap(room) || len(in.memory)+len(in.turns) != cap(room) {
			t.Errorf("%s: code %d, %d and %d held", name, recorder.Code, len(in.memory), len(in.turns))
		}
	}
}

func TestWhateverComesTheRoomIsGivenBack(t *testing.T) {
	for _, body := range []string{"", "\x00\xff", "null", "[]", `{"kind":"AdmissionReview"`, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, strings.Repeat(" ", MaxReview+1)} {
		in := NewIntake(1)
		recorder := httptest.NewRecorder()
		Serve(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)), in, allow)
		if recorder.Code < 400 || len(in.memory) != 0 || len(in.turns) != 0 {
			t.Errorf("%.20q: code %d, %d and %d held", body, recorder.Code, len(in.memory), len(in.turns))
		}
	}
}

// TestManyLargeReviewsAtOnceAllGetThrough has more of them than there is memory for: each holds a part and waits for the rest.
func TestManyLargeReviewsAtOnceAllGetThrough(t *testing.T) {
	in := NewIntake(2)
	url, client := serve(t, in, allow)
	large := review(t, 6<<20)
	const n = 12
	ended := make(chan error, n)
	for range n {
		go func() {
			code, err := post(t.Context(), client, url+"?timeout=30s", bytes.NewReader(large))
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("code %d", code)
			}
			ended <- err
		}()
	}
	for range n {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	eventually(t, "the memory to be given back", func() bool { return len(in.memory) == 0 && len(in.turns) == 0 && len(in.beyond) == 0 })
}
