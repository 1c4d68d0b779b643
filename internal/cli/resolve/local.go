package resolve

// How does a resolver run without a cluster? The command resolve RESOLVER makes it in this process, and gives it
// from flags and files what a cluster would give it: its ConfigMap, Secrets, VerificationPolicies and a folder for
// mirrors. So --config takes the manifest of a cluster's ConfigMap as it is.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
)

// local runs resolvers in this process, each made when it is wanted.
type local struct {
	*command.Env
	flags   resolveFlags
	table   []resolvers.Entry
	configs map[string]map[string]string
	secrets givenSecrets
	made    map[string]*resolution.Resolvers
	free    []func() error
}

// newLocal reads the files that the flags name. The configuration given by keys is that of the entry.
func newLocal(e *command.Env, f resolveFlags, entry resolvers.Entry, table []resolvers.Entry) (*local, error) {
	l := &local{Env: e, flags: f, table: table, made: map[string]*resolution.Resolvers{}}
	var err error
	if l.configs, err = readConfigs(f, entry, table); err != nil {
		return nil, err
	}
	l.secrets, err = readSecrets(f.secrets, f.secretDir)
	return l, err
}

// Close releases what the resolvers hold. What was taken last is released first.
func (l *local) Close() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(l.made)) {
		errs = append(errs, l.made[name].Close())
	}
	for _, free := range slices.Backward(l.free) {
		errs = append(errs, free())
	}
	return errors.Join(errs...)
}

// fetchByName runs a resolver, by its name or an alias. If the time is over, the error says which flag bounds it,
// and not what the interrupted call says.
func (l *local) fetchByName(ctx context.Context, name, url string, given []resolve.Given) (*resolve.Resource, error) {
	var res *resolve.Resource
	r, err := l.makeResolver(ctx, name)
	if err == nil {
		res, err = r.Runner.Resolve(ctx, &resolve.Query{Resolver: name, Namespace: l.flags.namespace, URL: url, Params: given, Secrets: l.secrets})
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return res, err
}

// entryNamed finds a resolver by its name or an alias.
func (l *local) entryNamed(name string) (resolvers.Entry, error) {
	var names []string
	for _, e := range l.table {
		spec := e.Spec()
		if e.Name == name || slices.Contains(spec.Aliases, name) {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return resolvers.Entry{}, resolve.Errorf(resolve.ReasonUnknownResolver, "there is no resolver %.100q%s; this build has %s",
		name, brief.Hint(name, names), strings.Join(names, ", "))
}

// makeResolver makes and configures a resolver, once. References in a fetched resource may name other resolvers
// than the one of the command, so they are made when they are needed.
func (l *local) makeResolver(ctx context.Context, name string) (*resolution.Resolvers, error) {
	entry, err := l.entryNamed(name)
	if err != nil {
		return nil, err
	}
	if r := l.made[entry.Name]; r != nil {
		return r, nil
	}
	clock := resolve.SystemClock()
	lent := resolvers.Env{Clock: clock, Network: Network(l.Env, clock), Accounts: localAccounts{}}
	lent.Network.Allow = l.flags.addresses
	if lent.Roots, err = Roots(l.flags.dirs); err != nil {
		return nil, err
	}
	if entry.Name == "git" {
		folder, free, err := lockCacheSlot(l.flags.cacheDir)
		if err != nil {
			return nil, fmt.Errorf("no folder for mirrors: %w; name one with --cache-dir", err)
		}
		lent.Cache = folder
		l.free = append(l.free, free)
	}
	if !entry.Local {
		if lent.Cluster, _, err = l.flags.Connect(); err != nil {
			return nil, err
		}
	}
	only := []resolvers.Entry{entry}
	r, err := resolution.NewResolvers(ctx, MakeOf(only, lent), FlagsOf(only), resolve.Options{})
	if err != nil {
		return nil, err
	}
	l.made[entry.Name] = r
	// As a cluster would: each ConfigMap that the resolver reads, if it was given.
	for name, configure := range r.ConfigMaps(ctx, l.secrets) {
		if data := l.configs[name]; data != nil {
			if err := configure(data); err != nil {
				return nil, fmt.Errorf("%s: %s", name, strings.Join(resolve.Mistakes(err), "; "))
			}
		}
	}
	return r, nil
}

// readConfigs returns the data of ConfigMaps by their names. A key that stands in several places has the last
// value: of --config, then --set, then the flags about verification.
func readConfigs(f resolveFlags, entry resolvers.Entry, table []resolvers.Entry) (map[string]map[string]string, error) {
	known := []string{resolve.CacheConfigMap, resolution.FlagsConfigMap, resolution.VerificationConfigMap, resolution.TimeoutConfigMap}
	for _, e := range table {
		if e.ConfigMap != "" {
			known = append(known, e.ConfigMap)
		}
	}
	out := map[string]map[string]string{}
	add := func(name string, data map[string]string) {
		if out[name] == nil {
			out[name] = map[string]string{}
		}
		maps.Copy(out[name], data)
	}
	for _, file := range f.configs {
		found, err := readConfigFile(file, entry)
		if err != nil {
			return nil, err
		}
		for name, data := range found {
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("%s: no resolver reads a ConfigMap %q%s", file, name, brief.Hint(name, known))
			}
			add(name, data)
		}
	}
	for _, s := range f.settings {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--set %q: want KEY=VALUE", s)
		}
		if entry.ConfigMap == "" {
			return nil, fmt.Errorf("--set %q: the resolver %s has no configuration", s, entry.Name)
		}
		add(entry.ConfigMap, map[string]string{key: value})
	}
	for _, from := range []struct{ key, file string }{{"policies", f.policies}, {"trusted-root", f.trustedRoot}} {
		if from.file == "" {
			continue
		}
		text, err := command.ReadFileBounded(from.file)
		if err != nil {
			return nil, err
		}
		add(resolution.VerificationConfigMap, map[string]string{from.key: string(text)})
	}
	if f.noMatch != "" {
		add(resolution.VerificationConfigMap, map[string]string{"no-match": f.noMatch})
	}
	return out, nil
}

// readConfigFile reads ConfigMaps, or the plain keys of the entry's. A document with a kind is a ConfigMap, any
// other is a mapping of keys. A ConfigMap that stands there twice is an error.
func readConfigFile(file string, entry resolvers.Entry) (map[string]map[string]string, error) {
	text, err := command.ReadFileBounded(file)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	docs, err := splitDocuments(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, doc := range docs {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
			Data     map[string]string
		}
		// Plain keys may be of any type that YAML knows; those of a ConfigMap are strings.
		var plain map[string]any
		if err := yaml.UnmarshalStrict(doc, &plain); err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, i+1, err)
		}
		if _, typed := plain["kind"]; typed {
			if err := yaml.Unmarshal(doc, &head); err != nil || head.Kind != "ConfigMap" || head.Metadata.Name == "" {
				return nil, fmt.Errorf("%s: document %d is no ConfigMap with a name and data of strings", file, i+1)
			}
			if _, twice := out[head.Metadata.Name]; twice {
				return nil, fmt.Errorf("%s: the ConfigMap %s is in it twice", file, head.Metadata.Name)
			}
			out[head.Metadata.Name] = head.Data
			continue
		}
		if entry.ConfigMap == "" {
			return nil, fmt.Errorf("%s: the resolver %s has no configuration", file, entry.Name)
		}
		data := map[string]string{}
		for k, v := range plain {
			switch v.(type) {
			case map[string]any, []any:
				return nil, fmt.Errorf("%s: the value of %s is no plain text", file, k)
			case nil:
				data[k] = ""
			default:
				data[k] = fmt.Sprint(v)
			}
		}
		out[entry.ConfigMap] = data
	}
	return out, nil
}

// splitDocuments splits a stream of YAML; empty documents are left out.
func splitDocuments(text []byte) ([][]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var out [][]byte
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if doc, err = asYAML(doc); err != nil {
			return nil, err
		}
		var content any
		if err := yaml.Unmarshal(doc, &content); err != nil {
			return nil, err
		}
		if content != nil {
			out = append(out, doc)
		}
	}
}

// asYAML leaves YAML as it is. What is JSON comes without the escapes that YAML does not know, such as those of
// pairs of surrogates. Numbers keep all their digits.
func asYAML(doc []byte) ([]byte, error) {
	// The marker of a document's beginning stays with the first.
	text := bytes.TrimSpace(bytes.TrimPrefix(doc, []byte("---")))
	if !bytes.ContainsRune(text, '\\') || !bytes.HasPrefix(text, []byte("{")) || !json.Valid(text) {
		return doc, nil
	}
	var content any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&content); err != nil {
		return nil, err
	}
	return json.Marshal(content)
}

// givenSecrets are Secrets by name, the same in every namespace. It implements [resolve.Secrets].
type givenSecrets map[string]map[string][]byte

// Secret implements [resolve.Secrets].
func (s givenSecrets) Secret(_ context.Context, _, name string) (map[string][]byte, error) {
	if data, ok := s[name]; ok {
		return data, nil
	}
	return nil, resolve.Errorf(resolve.ReasonNotFound, "there is no Secret %.100q; give it with --secret %s=PATH%s", name, name, brief.Hint(name, slices.Sorted(maps.Keys(s))))
}

// localAccounts are ServiceAccounts without imagePullSecrets. It is the resolver bundles that asks.
type localAccounts struct{}

// ImagePullSecrets implements the interface of package resolve/bundle.
func (localAccounts) ImagePullSecrets(context.Context, string, string) ([]string, error) {
	return nil, nil
}

// readSecrets reads NAME=PATH and NAME:KEY=FILE, and a directory with a directory for each Secret.
func readSecrets(given []string, dir string) (givenSecrets, error) {
	out := givenSecrets{}
	if dir != "" {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if info, err := os.Stat(path); err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if out[e.Name()], err = readSecretDir(path); err != nil {
				return nil, err
			}
		}
	}
	for _, g := range given {
		name, path, ok := strings.Cut(g, "=")
		name, key, keyed := strings.Cut(name, ":")
		if !ok || name == "" || path == "" || keyed && key == "" {
			return nil, fmt.Errorf("--secret %q: want NAME=PATH or NAME:KEY=FILE", g)
		}
		if keyed {
			data, err := command.ReadFileBounded(path)
			if err != nil {
				return nil, err
			}
			if out[name] == nil {
				out[name] = map[string][]byte{}
			}
			out[name][key] = data
			continue
		}
		data, err := readSecret(path)
		if err != nil {
			return nil, err
		}
		out[name] = data
	}
	return out, nil
}

// readSecret reads a directory or a manifest. Values of stringData take precedence over those of data, as in a
// cluster. The annotation that binds a Secret to hosts is kept as a key.
func readSecret(path string) (map[string][]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return readSecretDir(path)
	}
	text, err := command.ReadFileBounded(path)
	if err != nil {
		return nil, err
	}
	var secret struct {
		Kind       string
		Metadata   struct{ Annotations map[string]string }
		Data       map[string][]byte
		StringData map[string]string
	}
	if text, err = asYAML(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := yaml.Unmarshal(text, &secret); err != nil || secret.Kind != "Secret" {
		return nil, fmt.Errorf("%s is no manifest of a Secret; for the value of one key give --secret NAME:KEY=FILE", path)
	}
	out := map[string][]byte{}
	maps.Copy(out, secret.Data)
	for k, v := range secret.StringData {
		out[k] = []byte(v)
	}
	if hosts, ok := secret.Metadata.Annotations[resolve.SecretHosts]; ok {
		out[resolve.SecretHosts] = []byte(hosts)
	}
	return out, nil
}

// readSecretDir reads a Secret as it is mounted into a container. Each regular file is a key; what the kubelet
// keeps beside them, such as ..data, is a folder and is left out.
func readSecretDir(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if out[e.Name()], err = command.ReadFileBounded(path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// slots is how many runs at once have a folder that stays; further ones have a temporary one.
const slots = 8

// lockCacheSlot returns a folder that no other run uses, one that was used before where there is one, and what gives it free. The
// kernel gives it free where the run is killed.
func lockCacheSlot(base string) (string, func() error, error) {
	if base == "" {
		dir, err := os.UserCacheDir()
		if err == nil {
			base = filepath.Join(dir, "sluice", "resolve")
			err = os.MkdirAll(base, 0o700)
		}
		if err != nil {
			// A home that cannot be written to is no reason to fail.
			return CacheFolder("")
		}
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", nil, err
	}
	for i := range slots {
		// A lock that the kernel holds goes away with the process, however it ends.
		lock := flock.New(filepath.Join(base, fmt.Sprintf("slot-%d.lock", i)), flock.SetPermissions(0o600))
		taken, err := lock.TryLock()
		if errors.Is(err, fs.ErrPermission) {
			break
		}
		if err != nil {
			return "", nil, err
		}
		if taken {
			return filepath.Join(base, fmt.Sprintf("slot-%d", i)), lock.Close, nil
		}
	}
	return CacheFolder("")
}
