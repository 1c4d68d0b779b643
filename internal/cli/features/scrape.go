package features

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/skew"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/limit"
)

const (
	// maxMetrics bounds the metrics of a process, in bytes.
	maxMetrics = 32 << 20
	// scrapeTimeout is the time limit for the answer of a process.
	scrapeTimeout = 30 * time.Second
)

// addScraped reads the features of processes from their metrics, as if they had reported them.
func (w *featureWorld) addScraped(ctx context.Context, e *command.Env, list []string) error {
	if len(list) == 0 {
		return nil
	}
	if len(w.parts) != 1 {
		return errors.New("--scrape takes a component: choose one with --component")
	}
	p := w.parts[0]
	for i, entry := range list {
		process, url, ok := strings.Cut(entry, "=")
		if !ok || process == "" {
			return fmt.Errorf("--scrape %q: it is written PROCESS=URL", entry)
		}
		features, err := scrapeMetrics(ctx, url)
		if err != nil {
			return fmt.Errorf("%s: %w", process, err)
		}
		r := v1alpha1.FeatureReport{Spec: v1alpha1.FeatureReportSpec{
			Component: p.component.Name, Process: process, Instance: fmt.Sprintf("scraped-%d", i), RenewTime: metav1.NewTime(e.Now()), LeaseDurationSeconds: 60,
			Features: features,
		}}
		if ref := p.component.Spec.ConfigMap; ref != nil {
			r.Namespace = ref.Namespace
		}
		w.reports = append(w.reports, r)
	}
	p.judgeAgain(e.Now(), w.reports)
	return nil
}

func scrapeMetrics(ctx context.Context, url string) ([]v1alpha1.ReportedFeature, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain; version=0.0.4")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", request.URL.Redacted(), response.Status)
	}
	text, err := limit.ReadAll(response.Body, maxMetrics)
	if err != nil {
		return nil, err
	}
	return skew.FromMetrics(text)
}
