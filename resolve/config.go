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

	"sluice.dev/internal/brief"
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
	KeyFetches       = "max-fetches"
	KeySpare         = "spare-fetches"
	KeyPerTenant     = "max-fetches-per-namespace"
	KeyPerHost       = "max-fetches-per-host"
	KeySlowAfter     = "slow-after"
	KeySlowRate      = "slow-rate"
	KeyAccessTTL     = "access-ttl"
)

// exampleKey is documentation in a ConfigMap, by Knative's habit.
const exampleKey = "_example"

// CommonKeys declares the keys that every resolver has beside its own.
func CommonKeys() []Key {
	return []Key{
		{Name: KeyFetchTimeout, Default: "1m", Check: CheckDuration, Doc: "How long a fetch may take, with its retries."},
		{Name: KeyCacheMode, Default: string(CacheAuto), Check: OneOf(cacheModes...), Doc: "The value of the parameter cache where none is given."},
		{Name: KeyBackoff, Default: "2s", Check: checkWait, Doc: "How long to wait before the first retry of a transient error."},
		{Name: KeyBackoffFactor, Default: "2.0", Check: floatIn(0, 1000), Doc: "By how much each further wait is longer; 0 leaves it as it is."},
		{Name: KeyBackoffJitter, Default: "0.1", Check: floatIn(0, 1000), Doc: "Up to which part of it a wait is made longer by chance."},
		{Name: KeyBackoffSteps, Default: "2", Check: intIn(1, 1000), Doc: "How often a fetch is tried in all; 1 never tries again."},
		{Name: KeyBackoffCap, Default: "10s", Check: checkWait, Doc: "The longest wait; 0 sets no limit."},
		{
			Name: KeyContentKinds, Default: "*", Check: checkContentKinds, Wrong: Closes,
			Doc: "Comma-separated kinds that content may be of, as KIND.GROUP, or KIND for the core group; *.GROUP stands for all of a group, * for all. Beside Tekton the default is " + TektonKinds + ".",
		},
		{Name: KeyFetches, Default: "64", Check: intIn(1, 10_000), Doc: "How many fetches run at once in one process; fewer where memory is scarce."},
		{Name: KeySpare, Default: "16", Check: intIn(0, 10_000), Doc: "How many of these places, at most half, are for namespaces that run less than a quarter of max-fetches-per-namespace, and half of those for namespaces that run nothing, so that a few whose remotes are slow do not keep the others waiting."},
		{Name: KeyPerTenant, Default: "16", Check: intIn(1, 10_000), Doc: "How many fetches of one namespace run at once."},
		{Name: KeyPerHost, Default: "32", Check: intIn(1, 10_000), Doc: "How many fetches from one host run at once."},
		{Name: KeySlowAfter, Default: "15s", Check: checkWait, Doc: "A fetch that has waited for its remote for so long without getting slow-rate loses its place if another fetch waits for one. It is tried again like after other failures that may pass. 0s leaves it its place until fetch-timeout."},
		{Name: KeySlowRate, Default: "1024", Check: intIn(1, 1<<40), Doc: "How many bytes a second a remote has to send for slow-after."},
		{Name: KeyAccessTTL, Default: "1m", Check: checkWait, Doc: "How long it is believed that a remote lets a credential in, and a cluster an account: what was read by it is not given to anybody for longer without asking again. 0s asks for each request, as the parameter cache with never does."},
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

// checkWait accepts 0 as well.
func checkWait(v string) error {
	if d, err := time.ParseDuration(v); err == nil && d == 0 {
		return nil
	}
	return CheckDuration(v)
}

// CheckBool accepts what [strconv.ParseBool] reads: true and false, in the ways in which Go writes them.
func CheckBool(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return fmt.Errorf("%s is not allowed; allowed are true and false", quote(v))
	}
	return nil
}

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

// Reading is what the data of a ConfigMap says.
type Reading struct {
	// Config is complete: where the data has no good value for a key, its default holds, or what was good before.
	Config Config
	// Good are the values that the data sets and that hold, those from before included.
	Good map[string]string
	// Closed are the keys for which no value can stand in; see [Closes]. While there are any, nothing may be resolved.
	Closed []string

	wrong problems
}

// Err tells of everything that is wrong, and what holds in its place; nil if nothing is. See [Problems].
func (r Reading) Err() error { return r.wrong.err() }

// ReadConfig judges the data of the resolver's ConfigMap, key by key; nil data gives the defaults. What is wrong is never the
// end of the rest: for a wrong value that of before holds, which is [Reading.Good] of the data that was read last, or else the
// key's [Wrong] says what becomes of it. Unknown keys count for nothing, unless they are likely to be a key that closes. Keys
// of named configurations stay as they are. An empty value counts as not set.
func (s Spec) ReadConfig(data, before map[string]string) Reading {
	return readKeys(s.keys(), data, before, s.NamedConfigs)
}

func readKeys(keys []Key, data, before map[string]string, named bool) Reading {
	by, names := map[string]Key{}, []string{}
	out := Reading{Config: Config{}, Good: map[string]string{}}
	for _, k := range keys {
		by[k.Name] = k
		names = append(names, k.Name)
		if k.Default != "" {
			out.Config[k.Name] = k.Default
		}
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if name == exampleKey {
			continue
		}
		prefix, key := "", name
		if first, rest, ok := strings.Cut(name, "."); ok && named && first != "" {
			prefix, key = first+".", rest
		}
		k, ok := by[key]
		if !ok {
			if meant := by[brief.Nearest(key, names)]; meant.Wrong == Closes {
				if _, twice := data[prefix+meant.Name]; !twice {
					out.replace(meant, prefix+meant.Name, before, "unknown key %s (did you mean %q?); ", quote(name), prefix+meant.Name)
					continue
				}
			}
			out.wrong.add("unknown key %s%s; it is ignored", quote(name), brief.Hint(key, names))
			continue
		}
		v := strings.TrimSpace(data[name])
		if v == "" {
			if prefix != "" {
				out.Config[name] = ""
			}
			continue
		}
		if k.Check != nil {
			if err := k.Check(v); err != nil {
				if k.Wrong != IsKept {
					out.replace(k, name, before, "key %s: %w; ", quote(name), err)
					continue
				}
				out.wrong.add("key %s: %w; it is used as it is", quote(name), err)
			}
		}
		if b, err := strconv.ParseBool(v); err == nil && (k.Default == "true" || k.Default == "false") {
			v = strconv.FormatBool(b)
		}
		out.Config[name], out.Good[name] = v, v
	}
	return out
}

// replace says and sets what holds where the value of a key is wrong; the text says what is wrong.
func (r *Reading) replace(k Key, name string, before map[string]string, text string, args ...any) {
	if v, ok := before[name]; ok {
		r.Config[name], r.Good[name] = v, v
		r.wrong.add(text+"the last good value holds", args...)
		return
	}
	switch {
	case k.Wrong == Closes:
		r.Closed = append(r.Closed, name)
		r.wrong.add(text+"nothing is resolved until it is right, for it says what is allowed", args...)
	case k.Default != "" && name == k.Name:
		r.wrong.add(text+"the default %s holds", append(args, quote(k.Default))...)
	default:
		r.wrong.add(text+"it counts as not set", args...)
	}
}

// common is what the runner reads from a configuration, which was judged before.
type common struct {
	timeout time.Duration
	backoff backoff
	// See [Limits].
	fetches, spare, perTenant, perHost int
	slowAfter                          time.Duration
	slowRate                           int64
	access                             time.Duration
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
	n := func(key string) int { v, _ := strconv.Atoi(c[key]); return v }
	return common{
		fetches: n(KeyFetches), spare: n(KeySpare), perTenant: n(KeyPerTenant), perHost: n(KeyPerHost),
		slowAfter: d(KeySlowAfter), slowRate: int64(n(KeySlowRate)), access: d(KeyAccessTTL),
		timeout: d(KeyFetchTimeout),
		backoff: backoff{wait: d(KeyBackoff), most: d(KeyBackoffCap), factor: f(KeyBackoffFactor), jitter: f(KeyBackoffJitter), steps: n(KeyBackoffSteps)},
	}
}

// delay is the wait after a number of tries, counted from 1; chance is from 0 up to 1.
func (b backoff) delay(tries int, chance float64) time.Duration {
	most := float64(24 * time.Hour)
	if b.most > 0 {
		most = float64(b.most)
	}
	d := float64(b.wait)
	if b.factor > 0 {
		d = min(d*math.Pow(b.factor, float64(tries-1)), most)
	}
	return time.Duration(min(d, most) * (1 + b.jitter*chance))
}
