package resolve

import (
	"context"
	"maps"
	"strings"
)

// SecretHosts is the entry in the data of a Secret, as [Secrets] gives it, that says to which hosts it may be sent: the
// Secret's annotation of this name. No key of a Secret has a slash in it. Where it is missing the Secret says nothing.
const SecretHosts = "sluice.dev/hosts" //nolint:gosec // the name of an annotation

// KeySecretHosts is the key of the configuration by which an operator demands that Secrets say to which hosts they may be
// sent.
const KeySecretHosts = "secrets-need-hosts"

// SecretHostsKey declares [KeySecretHosts], for resolvers that send Secrets to hosts which a request names.
func SecretHostsKey() Key {
	return Key{
		Name: KeySecretHosts, Default: "false", Check: CheckBool, Wrong: Closes,
		Doc: "Whether a Secret that a request names is sent to those hosts only that its annotation " + SecretHosts + " lists; otherwise one without the annotation is sent to any.",
	}
}

// SecretFor reads a Secret that a request names, to be sent to a host that the request names too: in small letters, with a
// port only where it is not the scheme's own. Whoever may make requests chooses both, so the Secret itself has a say: the
// error has the reason [ReasonDenied] where it is for other hosts, or for none that it names though the configuration wants
// it to. Secrets must not be nil.
func (r *Request) SecretFor(ctx context.Context, namespace, name, host string) (map[string][]byte, error) {
	data, err := r.Secrets.Secret(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	list, ok := data[SecretHosts]
	switch {
	case ok && !hostListed(host, string(list)):
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

// hostListed tells whether a host stands in a list separated by commas or spaces; *.domain stands for all hosts below a
// domain, at the schemes' own ports.
func hostListed(host, list string) bool {
	for entry := range strings.FieldsFuncSeq(strings.ToLower(list), func(c rune) bool { return c == ',' || c == ' ' || c == '\n' || c == '\t' }) {
		if entry == host {
			return true
		}
		if domain, ok := strings.CutPrefix(entry, "*"); ok && len(domain) > 1 && domain[0] == '.' && strings.HasSuffix(host, domain) && len(host) > len(domain) {
			return true
		}
	}
	return false
}
