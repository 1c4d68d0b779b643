package resolve

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"sync"
)

// Two rules protect Secrets. A Secret can name the hosts that it may be sent to, because a requester chooses both the Secret and the
// host. And a result that was read with a Secret is only for requesters who can read the same Secret at that moment.

// SecretHosts is the entry in the data of a Secret, as [Secrets] returns it, that lists the hosts the Secret may be sent to. It
// comes from the Secret's annotation of this name. Real keys of a Secret have no slash, so the two cannot collide. Without it the
// Secret sets no limit.
const SecretHosts = "sluice.dev/hosts" //nolint:gosec // the name of an annotation

// KeySecretHosts is the key of the configuration by which an operator demands that Secrets list the hosts that they may be sent to.
const KeySecretHosts = "secrets-need-hosts"

// SecretHostsKey declares [KeySecretHosts], for resolvers that send Secrets to hosts that a request names.
func SecretHostsKey() Key {
	return Key{
		Name: KeySecretHosts, Default: "false", Check: CheckBool, Wrong: Closes,
		Doc: "Whether a Secret of a request is sent only to the hosts in its annotation " + SecretHosts + ". With false, a Secret without the annotation is sent to any host.",
	}
}

// SecretFor reads a Secret that a request names, to send it to a host that the request names too. The host is in lower case, with a
// port only if it is not the scheme's own. The requester chooses both, so the Secret limits its hosts itself. The error has the
// reason [ReasonDenied] if the Secret names other hosts, or if it names none and the configuration demands it. Secrets must not be
// nil.
func (r *Request) SecretFor(ctx context.Context, namespace, name, host string) (map[string][]byte, error) {
	data, err := r.Secrets.Secret(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	list, ok := data[SecretHosts]
	hosts, err := ParseHosts(string(list))
	switch {
	case ok && err != nil:
		return nil, Errorf(ReasonDenied, "the Secret %q in namespace %q is sent nowhere: its annotation %s: %w", name, namespace, SecretHosts, err)
	case ok && !hosts.Has(host):
		return nil, Errorf(ReasonDenied, "the Secret %q in namespace %q is not for the host %s: its annotation %s lists others", name, namespace, host, SecretHosts)
	case !ok && r.Config[KeySecretHosts] == "true":
		return nil, Errorf(ReasonDenied,
			"the Secret %q in namespace %q does not say which hosts it is for, as the operator demands; whoever owns it can: kubectl annotate secret %s --namespace=%s %s=%s",
			name, namespace, name, namespace, SecretHosts, host)
	case ok:
		data = maps.Clone(data)
		delete(data, SecretHosts)
	}
	return data, nil
}

// secretReads records the Secrets that a fetch has read. Only a request that can read the same Secrets with the same data gets its
// result: the Secret may have been changed, deleted, or replaced by another one of the same name in the meantime.
type secretReads struct {
	Secrets

	mu   sync.Mutex
	sums map[[2]string][sha256.Size]byte
}

// Secret implements [Secrets].
func (s *secretReads) Secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	data, err := s.Secrets.Secret(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sums == nil {
		s.sums = map[[2]string][sha256.Size]byte{}
	}
	s.sums[[2]string{namespace, name}] = sumOf(data)
	return data, nil
}

// sumOf returns equal sums for equal data.
func sumOf(data map[string][]byte) [sha256.Size]byte {
	// Maps are written by sorted keys, and maps of bytes always marshal.
	text, _ := json.Marshal(data) //nolint:errchkjson // see above
	return sha256.Sum256(text)
}

// sameFor reports whether another requester reads the same Secrets now.
func (s *secretReads) sameFor(ctx context.Context, by Secrets) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	sums := maps.Clone(s.sums)
	s.mu.Unlock()
	for at, sum := range sums {
		if by == nil {
			return false
		}
		if data, err := by.Secret(ctx, at[0], at[1]); err != nil || sumOf(data) != sum {
			return false
		}
	}
	return true
}
