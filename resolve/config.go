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

// A ConfigMap changes while the process runs, and its author may err. So each key is judged by itself: a wrong one keeps its last good
// value, or takes its default, or, if it restricts what is allowed, stops the resolver. For example, with a wrong backoff-steps
// requests go on as before; with a wrong allowed-kinds and no good one before, each request fails and says so.

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

// exampleKey holds documentation in a ConfigMap, as in Knative.
const exampleKey = "_example"

// CommonKeys declares the keys that every resolver has in addition to its own.
func CommonKeys() []Key {
	return []Key{
		{Name: KeyFetchTimeout, Default: "1m", Check: CheckDuration, Doc: "How long a fetch may take, with its retries."},
		{Name: KeyCacheMode, Default: string(CacheAuto), Check: OneOf(cacheModes...), Doc: "The value of the parameter cache where none is given."},
		{Name: KeyBackoff, Default: "2s", Check: checkWait, Doc: "How long to wait before the first retry of a transient error."},
		{Name: KeyBackoffFactor, Default: "2.0", Check: floatIn(0, 1000), Doc: "The factor by which each further wait grows; 0 leaves it as it is."},
		{Name: KeyBackoffJitter, Default: "0.1", Check: floatIn(0, 1000), Doc: "How much longer a wait can get at random, as a part of the wait."},
		{Name: KeyBackoffSteps, Default: "2", Check: intIn(1, 1000), Doc: "How many times a fetch is tried in total; with 1 there are no retries."},
		{Name: KeyBackoffCap, Default: "10s", Check: checkWait, Doc: "The longest wait; 0 sets no limit."},
		{
			Name: KeyContentKinds, Default: "*", Check: Parses(ParseKinds), Wrong: Closes,
			Doc: "Comma-separated kinds that content may have, as KIND.GROUP, or KIND for the core group; *.GROUP stands for all of a group, * for all. Next to Tekton the default is " + TektonKinds + ".",
		},
		{Name: KeyFetches, Default: "64", Check: intIn(1, 10_000), Doc: "How many fetches run at once in one process; fewer where memory is scarce."},
		{Name: KeySpare, Default: "16", Check: intIn(0, 10_000), Doc: "How many of these places, at most half, are reserved for namespaces that run less than a quarter of max-fetches-per-namespace. Half of the reserved places are for namespaces that run nothing. So a few namespaces with slow remotes do not keep the others waiting."},
		{Name: KeyPerTenant, Default: "16", Check: intIn(1, 10_000), Doc: "How many fetches of one namespace run at once."},
		{Name: KeyPerHost, Default: "32", Check: intIn(1, 10_000), Doc: "How many fetches from one host run at once."},
		{Name: KeySlowAfter, Default: "15s", Check: checkWait, Doc: "If a remote is slower than slow-rate for this long, its fetch loses its place when another fetch waits for one. It is tried again as after other transient errors. With 0s it keeps its place until fetch-timeout."},
		{Name: KeySlowRate, Default: "1024", Check: intIn(1, 1<<40), Doc: "How many bytes a second a remote has to send for slow-after."},
		{Name: KeyAccessTTL, Default: "1m", Check: checkWait, Doc: "How long the resolver trusts that a remote accepts a credential, and a cluster an account. After that it asks again before it returns content that was read with them. 0s asks for each request, as the parameter cache with never does."},
	}
}

// CheckDuration accepts a duration above zero and up to a day, for example 90s.
func CheckDuration(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 || d > 24*time.Hour {
		return fmt.Errorf("%s is no duration between 0 and 24h, for example 1m30s", quoteShort(v))
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

// CheckBool accepts the values that [strconv.ParseBool] reads.
func CheckBool(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return fmt.Errorf("%s is not allowed; allowed are true and false", quoteShort(v))
	}
	return nil
}

// Parses accepts what a function parses without an error.
func Parses[T any](parse func(string) (T, error)) func(string) error {
	return func(v string) error {
		_, err := parse(v)
		return err
	}
}

// OneOf accepts the listed values.
func OneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("%s is not allowed; allowed are %s", quoteShort(v), strings.Join(values, ", "))
		}
		return nil
	}
}

// floatIn accepts numbers from least to most, both included. NaN is none of them.
func floatIn(least, most float64) func(string) error {
	return func(v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || f < least || f > most {
			return fmt.Errorf("%s is no number from %g to %g", quoteShort(v), least, most)
		}
		return nil
	}
}

// intIn accepts whole numbers in decimal digits from least to most, both included.
func intIn(least, most int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%s is no whole number from %d to %d", quoteShort(v), least, most)
		}
		return nil
	}
}

// Keys lists the keys of the resolver's ConfigMap: its own first, then the common keys that it does not declare itself. Default and
// Check are complete.
func (s Spec) Keys() []Key {
	out := slices.Clone(s.Config)
	for _, k := range CommonKeys() {
		i := slices.IndexFunc(out, func(own Key) bool { return own.Name == k.Name })
		if i < 0 {
			out = append(out, k)
			continue
		}
		// The runner must be able to read its own keys, even if the resolver accepts other values.
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

// Reading is the result of reading the data of a ConfigMap.
type Reading struct {
	// Config is complete. For a key without a good value in the data it has the last good value, or the default.
	Config Config
	// Good are the values that the data sets and that are in force, last good values included.
	Good map[string]string
	// Closed are the keys with a wrong value that nothing can replace; see [Closes]. While there are any, nothing may be resolved.
	Closed []string

	wrong problems
}

// Err lists everything that is wrong, and the value that is used instead; nil if nothing is wrong. See [Problems].
func (r Reading) Err() error { return r.wrong.asError() }

// ReadConfig reads the data of the resolver's ConfigMap, key by key; nil data gives the defaults. A wrong value does not affect
// other keys. Its last good value, from [Reading.Good] of the previous data, stays in force. Without one, the key's [Wrong]
// decides. Unknown keys have no effect, unless they look like a key that closes, or [Spec] allows them. Keys of named configurations keep their prefix. An
// empty value counts as not set; in a named configuration it replaces the plain one, unless the key closes.
func (s Spec) ReadConfig(data, before map[string]string) Reading {
	return s.readKeys(s.Keys(), data, before)
}

// readKeys is ReadConfig with other keys.
func (s Spec) readKeys(keys []Key, data, before map[string]string) Reading {
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
		if first, rest, ok := strings.Cut(name, "."); ok && s.NamedConfigs && first != "" {
			prefix, key = first+".", rest
		}
		k, ok := by[key]
		if !ok {
			// A misspelt restriction must not count as none.
			if meant := by[brief.Nearest(key, names)]; meant.Wrong == Closes {
				if _, twice := data[prefix+meant.Name]; !twice {
					out.replaceWrong(meant, prefix+meant.Name, before, "unknown key %s (did you mean %q?)", quoteShort(name), prefix+meant.Name)
					continue
				}
			}
			if s.Undeclared {
				out.Config[name], out.Good[name] = data[name], data[name]
				continue
			}
			out.wrong.addMistake("it is ignored", "unknown key %s%s", quoteShort(name), brief.Hint(key, names))
			continue
		}
		v := strings.TrimSpace(data[name])
		if v == "" {
			if prefix != "" && k.Wrong != Closes {
				out.Config[name] = ""
			}
			continue
		}
		if k.Check != nil {
			if err := k.Check(v); err != nil {
				out.replaceWrong(k, name, before, "key %s: %w", quoteShort(name), err)
				continue
			}
		}
		if b, err := strconv.ParseBool(v); err == nil && (k.Default == "true" || k.Default == "false") {
			v = strconv.FormatBool(b)
		}
		out.Config[name], out.Good[name] = v, v
	}
	return out
}

// replaceWrong sets the value that is used if the value of a key is wrong, and records the problem. text describes it.
func (r *Reading) replaceWrong(k Key, name string, before map[string]string, text string, args ...any) {
	if v, ok := before[name]; ok {
		r.Config[name], r.Good[name] = v, v
		r.wrong.addMistake("the last good value holds", text, args...)
		return
	}
	switch {
	case k.Wrong == Closes:
		r.Closed = append(r.Closed, name)
		r.wrong.addMistake("nothing is resolved until it is right, for it says what is allowed", text, args...)
	case k.Default != "" && name == k.Name:
		r.wrong.addMistake("the default "+quoteShort(k.Default)+" holds", text, args...)
	default:
		r.wrong.addMistake("it counts as not set", text, args...)
	}
}

// common has the runner's own settings from a configuration that was checked before.
type common struct {
	timeout time.Duration
	backoff backoff
	// See [Limits].
	fetches, spare, perTenant, perHost int
	slowAfter                          time.Duration
	slowRate                           int64
	access                             time.Duration
}

// backoff is Kubernetes' wait.Backoff; steps counts the attempts.
type backoff struct {
	wait, most     time.Duration
	factor, jitter float64
	steps          int
}

// readCommon reads the settings of the runner. Each value was checked by [CommonKeys] or is a default, so that an error cannot occur;
// a zero would stand for it.
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

// delayAfter returns the wait after a number of attempts, counted from 1; chance is from 0 up to 1.
func (b backoff) delayAfter(tries int, chance float64) time.Duration {
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
