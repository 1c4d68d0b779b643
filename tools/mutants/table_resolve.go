package main

// resolveFaults are faults in the promises of resolvers: access, network addresses, signatures, separation of tenants, limits and
// fairness.
// Most of them would give one tenant what belongs to another, or take what nobody has signed.
var resolveFaults = []fault{
	{
		in: "resolve/git.(*mirror).proveAccess", find: "age < wanted.access+1", put: "(age < wanted.access+1 || true)",
		broken: "a token that was revoked goes on reading commits", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.(*mirror).lookupRevision", without: "cached.at.Before",
		broken: "a push is not seen by a request that wants a look after it", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.(*Resolver).resolveByClone", find: "cred.identityParts()", put: "cred.identityParts()[:0]",
		broken: "what one credential has read is given to another, or to nobody's", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.(*Resolver).resolveByClone", find: "repo.path}, netguard.Identity(s.Config, false))", put: "repo.path})",
		broken: "rules for addresses that were tightened do not reach what was fetched before", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.followSafely", find: "req.Header.Del(name)", put: "_ = name",
		broken: "a redirect to another host takes the credential along", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.followSafely", find: `last.URL.Scheme == "https" && req.URL.Scheme != "https"`,
		put:    `last.URL.Scheme == "https" && false`,
		broken: "a redirect leads from https to http", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.(*mirror).fetchLoose", find: "name != id", put: `name == ""`,
		broken: "a web server gives any object for any other", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.unpackPlain", find: "!bytes.Equal(sum, trailer.Sum(nil))", put: "false",
		broken: "a pack is unpacked whose checksum is wrong", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.(*plainPack).writeNextObject", find: "p.left < 0", put: "p.left < -1<<62",
		broken: "a small pack is unpacked to any size", tests: []string{"resolve/git"},
	},
	{in: "resolve/git.copyPack", without: "limit -= int64(len(b) - 1)", broken: "a server sends a pack of any size", tests: []string{"resolve/git"}},
	{
		in: "resolve/git.(*Resolver).commitSigners", find: "if !want.Enforced { err = nil }", put: "err = nil",
		broken: "a commit resolves that is not signed as a policy wants", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.(*Resolver).throughAPI", find: "|| signed.Enforced {", put: "|| signed.Enforced && false {",
		broken: "the API of a provider is asked for a file whose commit must be signed", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/netguard.(*Guard).controlDial", find: "return g.checkAddr(t.host, ap.Addr(), ap.Port())", put: "_ = ap; return nil",
		broken: "a connection goes to an address that its name did not have before", tests: []string{"resolve/netguard"},
	},
	{
		in: "resolve/netguard.(*Guard).checkRedirect", find: "away = away || !sameOrigin(via[0].URL, r.URL)", put: "_ = r",
		broken: "a redirect there and back gets the credential again", tests: []string{"resolve/netguard"},
	},
	{
		in: "resolve/bundle.flawOf", find: "p.Critical.Image.Digest != digest.String()", put: `p.Critical.Image.Digest == ""`,
		broken: "the signature of one image counts for another", tests: []string{"resolve/bundle"},
	},
	{
		in: "resolve/bundle.(*guard).fetchPage", without: "to.Host != req.URL.Host",
		broken: "a list of signatures goes on at another host, with the credential", tests: []string{"resolve/bundle"},
	},
	{
		in: "resolve/verify.Verify", find: "failed = append(failed, msg)", put: "warnings = append(warnings, msg)",
		broken: "what a policy wants signed resolves without", tests: []string{"resolve/verify"},
	},
	{
		in: "resolve.(*Request).SecretFor", find: "!hosts.Has(host)", put: "false && !hosts.Has(host)",
		broken: "a Secret goes to a host that it is not for", tests: []string{"resolve"},
	},
	{
		in: "resolve.keyOf", find: "[]any{epoch, scope, c.spec.Name", put: `[]any{epoch, "", c.spec.Name`,
		broken: "what one namespace has read is given to another", tests: []string{"resolve"},
	},
	{
		in: "resolve/git.Policy.checkOne", find: "p.Allow != nil", put: "len(p.Allow) > 0",
		broken: "a policy that allows nothing allows everything", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.repositoryName", find: "strings.ToLower(r.canonicalName())", put: "strings.ToLower(r.canonicalName()[:0] + text)",
		broken: "a rule with a scheme or .git matches no repository", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.Rule.matchesFetch", find: "!allow && r.matchesAbove(f.path)", put: "false && r.matchesAbove(f.path)",
		broken: "the files of a denied directory are read", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/git.settings.restrictions", find: "range s.listing", put: "range s.listing[:0]",
		broken: "a request avoids the rules for a host by naming another configuration", tests: []string{"resolve/git"},
	},
	{
		in: "resolve/cluster.checkNamespaces", find: "if err := checkNamespace(n); err != nil {", put: "if err := checkNamespace(n); false && err != nil {",
		broken: "a blocked namespace that is spelled wrong is read", tests: []string{"internal/resolvers"},
	},
	{
		in: "resolve.(*Runner).Configure", find: "keys[i].Default, keys[i].Wrong = value, Closes", put: "keys[i].Default = value",
		broken: "a mistake in a ConfigMap brings back a wide default", tests: []string{"resolve"},
	},
	{in: "resolve.(*queue).nextTicket", without: "sparesPlace", broken: "a few namespaces take all places", tests: []string{"resolve"}},
	{
		in: "resolve.(*queue).startReady", find: "q.turns.MoveToBack(turn)", put: "_ = turn",
		broken: "the namespace that came first goes first each time", tests: []string{"resolve"},
	},
}
