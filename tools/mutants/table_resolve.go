package main

// resolveFaults are faults in the promises of resolvers: access, network addresses, signatures, separation of tenants, limits and
// fairness.
var resolveFaults = []fault{
	{
		file: "resolve/git/mirror.go", old: `		return m.admitted, !m.admitted.IsZero() && age < wanted.access+1 && !m.admitted.Before(wanted.notBefore)`,
		new:    `		return m.admitted, !m.admitted.IsZero() && (age < wanted.access+1 || true) && !m.admitted.Before(wanted.notBefore)`,
		broken: "a token that was revoked goes on reading commits", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/mirror.go", old: `	if ok && wanted.now().Sub(cached.at) < wanted.ttl && !cached.at.Before(wanted.notBefore) {`,
		new:    `	if ok && wanted.now().Sub(cached.at) < wanted.ttl {`,
		broken: "a push is not seen by a request that wants a look after it", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/resolver.go", old: `slices.Concat(cred.identity(), []string{repo.scheme`, new: `slices.Concat(cred.identity()[:0], []string{repo.scheme`,
		broken: "what one credential has read is given to another, or to nobody's", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/resolver.go", old: `repo.path}, netguard.Identity(s.Config, false))`, new: `repo.path})`,
		broken: "rules for addresses that were tightened do not reach what was fetched before", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/http.go", old: `			req.Header.Del(name)`, new: `			_ = name`,
		broken: "a redirect to another host takes the credential along", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/http.go", old: `	case last.URL.Scheme == "https" && req.URL.Scheme != "https":`, new: `	case last.URL.Scheme == "https" && false:`,
		broken: "a redirect leads from https to http", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/files.go", old: `err != nil || name != id {`, new: `err != nil || name == "" {`,
		broken: "a web server gives any object for any other", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/plain.go", old: `	if !bytes.Equal(sum, trailer.Sum(nil)) {`, new: `	if false {`,
		broken: "a pack is unpacked whose checksum is wrong", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/plain.go", old: `	if p.left -= size; p.left < 0 {`, new: `	if p.left -= size; p.left < -1<<62 {`,
		broken: "a small pack is unpacked to any size", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/protocol.go", old: `			limit -= int64(len(b) - 1)
`, new: ``,
		broken: "a server sends a pack of any size", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/signature.go", old: `	if !want.Enforced {
		err = nil
	}
`, new: `	err = nil
`,
		broken: "a commit resolves that is not signed as a policy wants", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/git/scm.go", old: ` || signed.Enforced {`, new: ` || signed.Enforced && false {`,
		broken: "the API of a provider is asked for a file whose commit must be signed", tests: []string{"resolve/git"},
	},
	{
		file: "resolve/netguard/netguard.go", old: `	return g.checkAddr(t.host, ap.Addr(), ap.Port())`, new: `	_ = ap
	return nil`,
		broken: "a connection goes to an address that its name did not have before", tests: []string{"resolve/netguard"},
	},
	{
		file: "resolve/netguard/client.go", old: `		away = away || !sameOrigin(via[0].URL, r.URL)`, new: `		_ = r`,
		broken: "a redirect there and back gets the credential again", tests: []string{"resolve/netguard"},
	},
	{
		file: "resolve/bundle/cosign.go", old: `	if p.Critical.Image.Digest != digest.String() {`, new: `	if p.Critical.Image.Digest == "" {`,
		broken: "the signature of one image counts for another", tests: []string{"resolve/bundle"},
	},
	{
		file: "resolve/bundle/pages.go", old: ` || to.Host != req.URL.Host `, new: ` `,
		broken: "a list of signatures goes on at another host, with the credential", tests: []string{"resolve/bundle"},
	},
	{
		file: "resolve/verify/verify.go", old: `		failed = append(failed, msg)`, new: `		warnings = append(warnings, msg)`,
		broken: "what a policy wants signed resolves without", tests: []string{"resolve/verify"},
	},
	{
		file: "resolve/secret.go", old: `	case ok && !hostListed(host, string(list)):`, new: `	case false && !hostListed(host, string(list)):`,
		broken: "a Secret goes to a host that it is not for", tests: []string{"resolve"},
	},
	{
		file: "resolve/runner.go", old: `[]any{epoch, scope, c.spec.Name`, new: `[]any{epoch, "", c.spec.Name`,
		broken: "what one namespace has read is given to another", tests: []string{"resolve"},
	},
	{
		file: "resolve/queue.go", old: `ten.running >= q.limits.PerTenant || !q.spares(ten)`, new: `ten.running >= q.limits.PerTenant`,
		broken: "a few namespaces take all places", tests: []string{"resolve"},
	},
	{
		file: "resolve/queue.go", old: `		q.turns.MoveToBack(turn)
`, new: `		_ = turn
`,
		broken: "the namespace that came first goes first each time", tests: []string{"resolve"},
	},
}
