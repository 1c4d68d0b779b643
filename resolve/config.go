package resolve

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice.dev/internal/nearest"
)

// Keys that every resolver's configuration has, with Tekton's defaults.
const (
	KeyFetchTimeout  = "fetch-timeout"
	KeyCacheMode     = "default-cache-mode"
	KeyBackoff       = "backoff-duration"
	KeyBackoffFactor = "backoff-factor"
	KeyBackoffJitter = "backoff-jitter"
	KeyBackoffSteps  = "backoff-steps"
	KeyBackoffCap    = "backoff-cap"
)

// exampleKey is documentation in a ConfigMap, by Knative's habit.
const exampleKey = "_example"

// CommonKeys declares the keys that every resolver has beside its own.
func CommonKeys() []Key {
	return []Key{
		{Name: KeyFetchTimeout, Default: "1m", Check: CheckDuration, Doc: "How long a fetch may take, with its retries."},
		{Name: KeyCacheMode, Default: string(CacheAuto), Check: OneOf(cacheModes...), Doc: "The value of the parameter cache where none is given."},
		{Name: KeyBackoff, Default: "2s", Check: CheckDuration, Doc: "How long to wait before the first retry of a transient error."},
		{Name: KeyBackoffFactor, Default: "2.0", Check: floatIn(1, 100), Doc: "By how much each further wait is longer."},
		{Name: KeyBackoffJitter, Default: "0.1", Check: floatIn(0, 1), Doc: "Up to which part of it a wait is made longer by chance."},
		{Name: KeyBackoffSteps, Default: "2", Check: intIn(1, 100), Doc: "How often a fetch is tried in all; 1 never tries again."},
		{Name: KeyBackoffCap, Default: "10s", Check: CheckDuration, Doc: "The longest wait."},
	}
}

// CheckDuration accepts a duration above zero and up to a day, for example 90s.
func CheckDuration(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 || d > 24*time.Hour {
		return fmt.Errorf("%s is no duration between 0 and 24h, for example 1m30s", quote(v))
	}
	return nil
}

// CheckBool accepts true and false.
func CheckBool(v string) error { return OneOf("true", "false")(v) }

// OneOf accepts the values listed.
func OneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("%s is not allowed; allowed are %s", quote(v), strings.Join(values, ", "))
		}
		return nil
	}
}

func floatIn(least, most float64) func(string) error {
	return func(v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || f < least || f > most {
			return fmt.Errorf("%s is no number from %g to %g", quote(v), least, most)
		}
		return nil
	}
}

func intIn(least, most int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%s is no whole number from %d to %d", quote(v), least, most)
		}
		return nil
	}
}

// keys are the declared keys: the resolver's own, and the common ones that it does not declare itself.
func (s Spec) keys() []Key {
	out := slices.Clone(s.Config)
	for _, k := range CommonKeys() {
		i := slices.IndexFunc(out, func(own Key) bool { return own.Name == k.Name })
		if i < 0 {
			out = append(out, k)
			continue
		}
		// What the runner reads must be readable, whatever the resolver accepts.
		if own := out[i].Check; own != nil {
			common := k.Check
			out[i].Check = func(v string) error { return errors.Join(common(v), own(v)) }
		} else {
			out[i].Check = k.Check
		}
		if out[i].Default == "" {
			out[i].Default = k.Default
		}
	}
	return out
}

// Keys lists the keys of the resolver's ConfigMap, its own first, then the common ones; Default and Check are complete.
func (s Spec) Keys() []Key { return s.keys() }

// ParseConfig judges the data of the resolver's ConfigMap and fills in defaults; nil data gives the defaults. Keys of
// named configurations stay as they are. An empty value counts as not set. The error tells of everything that is wrong;
// see [Problems].
func (s Spec) ParseConfig(data map[string]string) (Config, error) {
	return parseKeys(s.keys(), data, s.NamedConfigs)
}

func parseKeys(keys []Key, data map[string]string, named bool) (Config, error) {
	by, names := map[string]Key{}, []string{}
	out := Config{}
	for _, k := range keys {
		by[k.Name] = k
		names = append(names, k.Name)
		if k.Default != "" {
			out[k.Name] = k.Default
		}
	}
	var p problems
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if name == exampleKey {
			continue
		}
		key, plain := name, true
		if prefix, rest, ok := strings.Cut(name, "."); ok && named && prefix != "" {
			key, plain = rest, false
		}
		k, ok := by[key]
		if !ok {
			p.add("unknown key %s%s", quote(name), nearest.Hint(key, names))
			continue
		}
		v := strings.TrimSpace(data[name])
		if v == "" {
			if !plain {
				out[name] = ""
			}
			continue
		}
		if k.Check != nil {
			if err := k.Check(v); err != nil {
				p.add("key %s: %w", quote(name), err)
				continue
			}
		}
		out[name] = v
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return out, nil
}

// common is what the runner reads from a configuration, which was judged before.
type common struct {
	timeout time.Duration
	backoff backoff
}

// backoff is Kubernetes' wait.Backoff, with steps counting the tries.
type backoff struct {
	wait, most     time.Duration
	factor, jitter float64
	steps          int
}

func readCommon(c Config) common {
	d := func(key string) time.Duration { v, _ := time.ParseDuration(c[key]); return v }
	f := func(key string) float64 { v, _ := strconv.ParseFloat(c[key], 64); return v }
	steps, _ := strconv.Atoi(c[KeyBackoffSteps])
	return common{
		timeout: d(KeyFetchTimeout),
		backoff: backoff{wait: d(KeyBackoff), most: d(KeyBackoffCap), factor: f(KeyBackoffFactor), jitter: f(KeyBackoffJitter), steps: steps},
	}
}

// delay is the wait after a number of tries, counted from 1; chance is from 0 up to 1.
func (b backoff) delay(tries int, chance float64) time.Duration {
	d := float64(b.wait) * math.Pow(b.factor, float64(tries-1))
	d = min(d, float64(b.most))
	return time.Duration(min(d*(1+b.jitter*chance), float64(b.most)*(1+b.jitter)))
}
