package git

import (
	"cmp"
	"math/rand/v2"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// refused reports whether a policy refuses a file of the repository at an address.
func refused(t *testing.T, policy, address, revision, file string) bool {
	t.Helper()
	p, err := ParsePolicy(policy)
	if err != nil {
		t.Fatalf("%s: %v", policy, err)
	}
	r, err := parseRepository(address)
	if err != nil {
		t.Fatal(err)
	}
	return p.checkFetch(fetched{namespace: "team-a", repository: r.canonicalName(), repositories: r.names(), revisions: []string{revision}, path: file}) != nil
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// One repository has many spellings. A pattern in any of them matches the repository in all of them, and no other repository.
func TestAPatternMatchesEverySpellingOfARepository(t *testing.T) {
	patterns := []string{
		"git.example.com/team/catalog", "GIT.Example.com/Team/Catalog.git", "git.example.com./team/catalog", "git.example.com/team/*.git",
		"https://git.example.com/team/catalog", "https://git.example.com/team/catalog.git", "https://git.example.com:443/team/catalog",
		"http://git.example.com/team/c?talog", "git://git.example.com/team/catalog", "ssh://git.example.com/team/catalog",
		"ssh://git@git.example.com/team/catalog.git", "ssh://git@git.example.com:022/team/catalog", "https://user@git.example.com/team/**",
		"git@git.example.com:team/catalog", "git@git.example.com:/team/catalog.git", "git.example.com:team/catalog", "git+https://git.example.com/team/**",
		"git+git@git.example.com:team/**", "git@git.example.com:**", "https://git.example.com/%74eam/catalog", "*://git.example.com/team/*", "http*://git.example.com/**",
		"**/catalog", "**/catalog.git", "https://**/catalog.git", "*.example.com/team/catalog", "*/team/catalog", "git.example.*/team/catalog", "git.*.com:team/catalog",
	}
	spellings := []string{
		"https://git.example.com/team/catalog", "https://git.example.com/team/catalog.git", "https://git.example.com/team/catalog/",
		"https://GIT.example.com./TEAM/Catalog.GIT", "https://user@git.example.com:443/team/catalog", "https://git.example.com:0443/team/catalog",
		"https://git.example.com/%74eam/catalog", "http://git.example.com/team/catalog", "git://git.example.com/team/catalog",
		"ssh://git@git.example.com/team/catalog", "ssh://git@git.example.com:22/team/catalog.git", "ssh://org-1@git.example.com/team/catalog",
		"git@git.example.com:team/catalog", "git@git.example.com:/team/catalog.git", "Git@GIT.Example.com:Team/catalog", "git.example.com:team/catalog",
	}
	others := []string{
		"https://git.example.com/team/catalog-evil", "https://git.example.com.evil.example/team/catalogs", "https://evil.example/git.example.com/team/catalog/x",
		"git@evil.example:git.example.com:team/catalog2",
	}
	for _, pattern := range patterns {
		allow, deny := "allow: [{repository: "+quoted(pattern)+"}]", "deny: [{repository: "+quoted(pattern)+"}]"
		for _, s := range spellings {
			if refused(t, allow, s, "main", "x") || !refused(t, deny, s, "main", "x") {
				t.Errorf("%s does not match %s", pattern, s)
			}
		}
		for _, s := range others {
			if strings.HasSuffix(strings.TrimSuffix(pattern, ".git"), "*") && strings.HasPrefix(s, "https://git.example.com/") {
				continue
			}
			if !refused(t, allow, s, "main", "x") || refused(t, deny, s, "main", "x") {
				t.Errorf("%s matches %s", pattern, s)
			}
		}
	}
}

// A name with a space has one repository in an address and in user@host:path.
func TestAPatternMatchesNamesWithSpaces(t *testing.T) {
	spellings := []string{"ssh://git@ssh.dev.azure.com/v3/org/My%20Project/My%20Repo", "git@ssh.dev.azure.com:v3/org/My%20Project/My%20Repo"}
	for _, pattern := range append([]string{"ssh.dev.azure.com/v3/org/My%20Project/*", "ssh.dev.azure.com/v3/org/My Project/My Repo", "git@ssh.dev.azure.com:v3/org/My Project/*", "**/My Repo"}, spellings...) {
		for _, s := range spellings {
			if refused(t, "allow: [{repository: "+quoted(pattern)+"}]", s, "main", "x") || !refused(t, "deny: [{repository: "+quoted(pattern)+"}]", s, "main", "x") {
				t.Errorf("%s does not match %s", pattern, s)
			}
		}
	}
}

func TestAPatternMatchesAPort(t *testing.T) {
	const web, other, shell = "https://git.example.com/a/b", "https://git.example.com:8443/a/b", "ssh://git@git.example.com/a/b"
	for pattern, matched := range map[string][]string{
		"git.example.com/**":               {web, shell},
		"git.example.com:443/**":           {web},
		"git.example.com:22/a/b":           {shell},
		"https://git.example.com:443/**":   {web, shell},
		"git.example.com:08443/**":         {other},
		"https://git.example.com:8443/a/b": {other},
		"git.example.com:*/a/**":           {web, other, shell},
		"git.example.com:*/a/b":            {web, other, shell},
		"git.example.com:**":               {web, other, shell},
		"git.example.com:8???/**":          {other},
		"https://git.example.com:8*3/a/b":  {other},
		"git.example.com:*?43/a/b":         {web, other},
		"git.example.com:2?/a/b":           {shell},
	} {
		for _, address := range []string{web, other, shell} {
			want := strings.Contains(strings.Join(matched, " ")+" ", address+" ")
			if got := refused(t, "deny: [{repository: '"+pattern+"'}]", address, "main", "x"); got != want {
				t.Errorf("%s matches %s: %v", pattern, address, got)
			}
		}
	}
	for _, address := range []string{"ssh://git@ssh.github.com:443/org/r", "https://www.github.com/org/r.git", "git@github.com:org/r"} {
		for _, pattern := range []string{"github.com/org/**", "ssh://git@ssh.github.com:443/org/**", "www.github.com/org/r", "*://git@ssh.github.com:443/org/r"} {
			if !refused(t, "deny: [{repository: "+quoted(pattern)+"}]", address, "main", "x") {
				t.Errorf("%s does not match %s", pattern, address)
			}
		}
		r, err := parseRepository(address)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := chooseSettings(resolve.Config{"x.hosts": "github.com"}, "", r.hostNames()...); err != nil || s.name != "x" {
			t.Errorf("%s escapes the configuration for github.com: %v", address, err)
		}
	}
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"} {
		if !refused(t, "deny: [{repository: 127.0.0.1/**}]", "https://"+host+"/a/b", "main", "x") {
			t.Errorf("%s is another host than 127.0.0.1", host)
		}
	}
}

func TestPatternsOfRevisionsAndPaths(t *testing.T) {
	id := strings.Repeat("ab", 20)
	for _, rule := range []string{
		"path: ./secret/**", "path: /secret/**", "path: 's?cret/x.yaml'", "path: secret", "path: secret/x.yaml", "path: '*/x.yaml'", "revision: main", "revision: '" + strings.ToUpper(id) + "'", "revision: 1.10",
	} {
		policy := "deny: [{" + rule + "}]"
		if !refused(t, policy, "https://h/r", "main", "secret/x.yaml") && !refused(t, policy, "https://h/r", id, "x") && !refused(t, policy, "https://h/r", "1.10", "x") {
			t.Errorf("%s matches nothing", rule)
		}
	}
}

// A name that a message has is a pattern for itself.
func TestNamesOfMessagesArePatterns(t *testing.T) {
	for _, name := range []string{"x (1).yaml", "My dir/it's.yaml", "a+b=c.yaml", "#1.yaml", "a$b.yaml", "~x", "ü.yaml", "a:b", "a@b", "a%20b"} {
		if !refused(t, "deny: [{path: "+quoted(name)+"}]", "https://h/r", "main", name) {
			t.Errorf("%s does not match itself", name)
		}
	}
}

// Each line is a policy that restricts less than its author wants, if it is taken.
func TestAPolicyThatCouldRestrictLessIsAnError(t *testing.T) {
	for policy, told := range map[string]string{
		"# nothing yet":                      "no rule",
		"---\n":                              "no rule",
		"null":                               "no rule",
		"{}":                                 "no rule",
		"namespaces: {}":                     "no rule",
		"namespaces: {team-a: {}}":           "namespaces.team-a: it has no rule",
		"allow:":                             `"allow" is empty`,
		"deny:\n# - path: secret/**":         `"deny" is empty`,
		"namespaces:":                        `"namespaces" is empty`,
		"namespaces: {team-a: }":             `"team-a" is empty`,
		"namespaces: {team-a: {allow: }}":    `namespaces.team-a: the field "allow" is empty`,
		"namespaces: {Team-A: {deny: [{}]}}": `"Team-A" is no name`,
		"namespaces: {team-*: {deny: [{}]}}": `"team-*" is no name`,
		"namespaces: {a: {namespaces: {b: {deny: [{}]}}}}": `unknown field "namespaces"`,
		"allow: {repository: h/**}":                        "allow: it is no list",
		"deny: all":                                        "deny: it is no list",
		"deny: [h/**]":                                     "deny[0]: it is no object",
		"deny: [null]":                                     "deny[0]: it is no object",
		"- deny: [{}]":                                     "it is no object",
		"deny: [{repository: [h/**]}]":                     "deny[0].repository: it is no pattern",
		"deny: [{repository: }]":                           `deny[0]: the field "repository" is empty`,
		"allow: [{repository: ''}]":                        "allow[0].repository: it is no pattern",
		"deny: [{repo: h/**}]":                             `unknown field "repo"; allowed are repository, revision, path`,
		"Deny: [{}]":                                       `unknown field "Deny" (did you mean "deny"?)`,
		"deny: [{}]\ndenies: [{}]":                         `unknown field "denies"`,
		"deny: [{path: a, path: b}]":                       `"path" stands twice`,
		"deny: [{path: a}]\ndeny: [{path: b}]":             `"deny" stands twice`,
		"deny: [{path: a}]\n---\ndeny: [{path: b}]":        "several YAML documents",
		"deny: []":                                         "no rule",
		"namespaces: {team-a: {deny: []}}":                 "namespaces.team-a: it has no rule",
		"deny: [":                                          "line 1",
	} {
		p, err := ParsePolicy(policy)
		if err == nil || !strings.Contains(err.Error(), told) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %+v, %v; want %q", policy, p, err, told)
		}
	}
	for field, patterns := range map[string][]string{
		"repository": {
			"git.example.com", "git.example.com/", "git.example.com/team/", "https://git.example.com", "https://git.example.com/team/", "*", "*.example.com", "/team/x",
			"file:///srv/x", "ftp://h/x", "ftp*://h/x", "https:/h/x", "h/./x", "h/../x", "**//x", "h:0/x", "h:65536/x", "https://h:x/y", "bücher.example/x",
			"https://user:password@h/x", "user:password@h/x", "127.1/x", " h/x", "h/x ", "h/x#main", `h\x`, "-h/x", "!h/x", "git@h", "git@h:", ".*", "https://",
			"h:0*/x", "h:7????/x", "https://h:??????/x", "h/b.git/**", "h/b.git/*", "**/b.git/c", "h/b@main", "**/b@main", "h/b:main", "h/{a,b}", "h/(a|b)", "h/[ab]", "h/a,b", "h/^a$",
			"**/{a,b}", "h/%2a", "**/%2a", "*://git@h/b@main",
			"h:21250", "git.example.com:8443", "h:*", "h:80?0", "h:8*",
		},
		"revision": {" main", "main ", "v1..v2", "main~1", "main^", "refs/heads/", "/main", "main.", "a b", "main:x", "x.lock", "[ab]", "-x", "HEAD@{1}", "refs//x", ".x", "{main,dev}", "main|dev", "main,dev", "(main|dev)", "!main", "^main", "main$", "'main'"},
		"path":     {"secret/", "./", "/", ".", "..", "a//b", "a/./b", "a/../b", "../a", `secret\x`, " a", "a ", "//a", "././a", "**/", "one.{yaml,yml}", "[ab]/x", "a|b", "a,b", "^a", "a$", "!a", `"a"`, "/!a"},
	} {
		for _, pattern := range patterns {
			if p, err := ParsePolicy("deny: [{" + field + ": " + quoted(pattern) + "}]"); err == nil || !strings.Contains(err.Error(), "deny[0]."+field+": ") {
				t.Errorf("%s %q: %+v, %v", field, pattern, p.Deny, err)
			}
		}
	}
}

func TestAListWithoutRules(t *testing.T) {
	for policy, want := range map[string]bool{
		"allow: []":                            true,
		"{allow: [], deny: [{path: nothing}]}": true,
		"namespaces: {team-a: {allow: []}}":    true,
		"namespaces: {other: {allow: []}}":     false,
		"{allow: [{}], deny: []}":              false,
		"deny: &all [{}]\nallow: *all":         true,
	} {
		if got := refused(t, policy, "https://h/r", "main", "x"); got != want {
			t.Errorf("%s refuses: %v", policy, got)
		}
	}
}

// matchesSomething checks that a pattern, if it is accepted, matches an address, a revision or a path that has its form.
func matchesSomething(t *testing.T, pattern string) {
	t.Helper()
	example := strings.NewReplacer("**", "a", "*", "a", "?", "a").Replace
	if p, err := repositoryPattern(pattern); err == nil {
		var found bool
		for i, all := range slices.Repeat([]string{"a", "a/a", "/a", "/", "/a/", ":443/a", "a:443/a", "443/a", "443/"}, 2) {
			host, name, _ := strings.Cut(strings.NewReplacer(":*/", ":443/", "**", all, "*", "a", "?", "a1"[i%2:][:1]).Replace(p), "/")
			u, err := url.Parse("https://" + host)
			if err != nil {
				continue
			}
			r, err := repository{scheme: "https", host: u.Hostname(), port: cmp.Or(u.Port(), "443"), path: "/" + name + ".git"}.checkParts()
			found = found || err == nil && anyMatches(p, r.names())
		}
		if !found {
			t.Errorf("%q, read as %q, matches no repository", pattern, p)
		}
	}
	if p, err := revisionPattern(pattern); err == nil && (checkRevision(example(p)) != nil || !matchGlob(p, example(p))) {
		t.Errorf("%q, read as %q, matches no revision", pattern, p)
	}
	if p, err := pathPattern(pattern); err == nil && (checkPath(example(p)) != nil || !matchGlob(p, example(p))) {
		t.Errorf("%q, read as %q, matches no path", pattern, p)
	}
}

func TestEachPatternThatIsAcceptedMatchesSomething(t *testing.T) {
	tokens := []string{
		"*", "**", "?", "/", "/", "a", "h", ":", "443", "22", "@", "git", "https://", "ssh://", "http", ".", "..", ".git", "[::1]", "-", "%2a", "%2f", "git+", "20003",
		"20013", "0", "//", "#", "refs/heads/", "x", " ",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b strings.Builder
		for range 1 + random.IntN(7) {
			b.WriteString(tokens[random.IntN(len(tokens))])
		}
		matchesSomething(t, b.String())
	}
}

// drawn is a name, by its parts, and a pattern with the parts of one.
type drawn struct {
	host, port string
	parts      []string
}

// matchesParts is the meaning of the path of a pattern: ** stands for any parts, at the end for one at least.
func matchesParts(pattern, parts []string) bool {
	if len(pattern) == 0 || len(parts) == 0 {
		return len(pattern) == 0 && len(parts) == 0
	}
	if pattern[0] == "**" {
		return len(pattern) == 1 || matchesParts(pattern[1:], parts) || matchesParts(pattern, parts[1:])
	}
	ok, err := path.Match(pattern[0], parts[0])
	return err == nil && ok && matchesParts(pattern[1:], parts[1:])
}

func (d drawn) matchesName(name drawn) bool {
	host, err := path.Match(d.host, name.host)
	port := d.port == name.port || d.port == "*" || d.port == "84??" && name.port == "8443"
	return err == nil && host && port && matchesParts(d.parts, name.parts)
}

func (d drawn) String() string {
	port := ""
	if d.port != "" {
		port = ":" + d.port
	}
	return d.host + port + "/" + strings.Join(d.parts, "/")
}

// withWildcards replaces parts of a path at random.
func withWildcards(random *rand.Rand, parts []string) []string {
	out := slices.Clone(parts)
	for i, part := range out {
		out[i] = []string{part, part, part, "*", part[:1] + "*", "?" + part[1:]}[random.IntN(6)]
	}
	switch i := random.IntN(len(out)); random.IntN(6) {
	case 0:
		out = slices.Insert(out, i, "**")
	case 1:
		out[i] = "**"
	case 2:
		out = append(out[:i:i], "**")
	}
	return out
}

// A rule that is taken means what it says to a reader, and so matches the name from which it was drawn. What has no meaning is refused.
func TestARuleMatchesWhatItIsMeantFor(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	var repositories, files []drawn
	for _, name := range []string{"a/b", "a/c", "a/b/c", "b", "one.yaml", "d/one.yaml", "d/one.yml", "d/e/two.yaml", "e/d/one.yaml"} {
		parts := strings.Split(name, "/")
		if strings.Contains(name, ".") {
			files = append(files, drawn{parts: parts})
			continue
		}
		for _, host := range []string{"h.io", "g.io"} {
			repositories = append(repositories, drawn{host, "", parts}, drawn{host, "8443", parts})
		}
	}
	load := func(field, pattern string, meaningless bool) bool {
		_, err := ParsePolicy("deny: [{" + field + ": " + quoted(pattern) + "}]")
		if meaningless == (err == nil) {
			t.Errorf("%s %s: %v", field, pattern, err)
		}
		return err == nil
	}
	for range 3000 {
		from := repositories[random.IntN(len(repositories))]
		meant := drawn{pick(from.host, from.host, "*.io", "?.io"), from.port, withWildcards(random, from.parts)}
		if meant.port = pick(from.port, from.port, "*"); from.port != "" {
			meant.port = pick(from.port, "84??", "*")
		}
		noise := pick("", "", "", ".git", ".git/**", "@main", "{,x}", ":main", "|b", "#x")
		text := pick("", "https://", "git+https://", "*://", "ssh://git@") + meant.String()
		if noise == ".git/**" || !strings.HasSuffix(text, "*") {
			text += noise
		} else {
			noise = ""
		}
		if !load("repository", text, !slices.Contains([]string{"", ".git"}, noise)) {
			continue
		}
		for _, r := range repositories {
			address := pick("https://", "http://", "ssh://git@") + r.String() + pick("", ".git", "/")
			for rule, want := range map[string]bool{"allow": !meant.matchesName(r), "deny": meant.matchesName(r)} {
				if got := refused(t, rule+": [{repository: "+quoted(text)+"}]", address, "main", "x"); got != want {
					t.Fatalf("%s %s: %s is refused: %v", rule, text, address, got)
				}
			}
			if r.String() == from.String() && !meant.matchesName(r) {
				t.Fatalf("%s is not meant for %s", text, address)
			}
		}
	}
	for range 3000 {
		from := files[random.IntN(len(files))]
		meant := withWildcards(random, from.parts[:1+random.IntN(len(from.parts))])
		noise := pick("", "", "", "", "/", "{,x}", "|b", "[ab]", "/.", `\x`)
		text := pick("", "/", "./") + strings.Join(meant, "/") + noise
		if !load("path", text, noise != "") {
			continue
		}
		for _, f := range files {
			below := false
			for i := range f.parts {
				below = below || matchesParts(meant, f.parts[:i+1])
			}
			for rule, want := range map[string]bool{"allow": !matchesParts(meant, f.parts), "deny": below} {
				if got := refused(t, rule+": [{path: "+quoted(text)+"}]", "https://h/r", "main", f.String()[1:]); got != want {
					t.Fatalf("%s %s: %s is refused: %v", rule, text, f.String()[1:], got)
				}
			}
			if f.String() == from.String() && !below {
				t.Fatalf("%s is not meant for %s", text, f.String()[1:])
			}
		}
	}
}

func FuzzPatterns(f *testing.F) {
	for _, seed := range []string{"git.example.com/**", "https://h/x.git", "git@h:x", "h:443/x", "**", "*://h/x", "**:x", "h:**", "20003/*?**", "[::1]:22/x", "%2a/x", "h/%2f"} {
		f.Add(seed)
	}
	f.Fuzz(matchesSomething)
}

// The API of a provider does not say whether a name is that of a branch or a tag: a rule to deny counts it as both, one to allow as
// neither.
func TestARuleForABranchHoldsForTheAPI(t *testing.T) {
	server, _ := scmServer(t, map[string]string{
		"/api/v1/repos/o/r/commits?limit=1&stat=false&verification=false&files=false&sha=dev": `[{"sha":"` + commitID + `"}]`,
		"/api/v1/repos/o/r/raw/x?ref=" + commitID:                                             "kind: Task\n",
	}, "")
	g := newResolver(t, nil)
	for policy, reason := range map[string]resolve.Reason{
		"deny: [{revision: refs/heads/dev}]":     resolve.ReasonForbidden,
		"deny: [{revision: 'refs/tags/*'}]":      resolve.ReasonForbidden,
		"deny: [{revision: heads/dev}]":          resolve.ReasonForbidden,
		"allow: [{revision: 'refs/tags/*'}]":     resolve.ReasonForbidden,
		"allow: [{revision: dev}]":               "",
		"deny: [{revision: refs/heads/release}]": "",
	} {
		r := ask(nil, ":scm-type", "gitea", ":server-url", server.URL, ":ca-bundle", gittest.PEM(server.Certificate().Raw), ":policy", policy, "org", "o", "repo", "r", "revision", "dev", "pathInRepo", "x")
		if reason == "" {
			wantData(t, g, r, "kind: Task\n")
		} else {
			wantReason(t, g, r, reason)
		}
	}
}

// Whoever names another configuration gets rid of no rule for the host.
func TestTheRulesForAHostHoldUnderEveryName(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	host := strings.TrimPrefix(s.URL, "http://")
	g := newResolver(t, nil)
	for _, key := range []string{"", "x", "y", "default"} {
		for rule, reason := range map[string]resolve.Reason{"policy": resolve.ReasonForbidden, "allowed-signers": resolve.ReasonVerification} {
			value := "deny: [{repository: '**'}]"
			if rule == "allowed-signers" {
				value = "joe@example.com " + gittest.NewSSHKey(t).Public
			}
			r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml", "configKey", key, ":y.ref-ttl", "1s", ":x.hosts", "other.example, "+strings.ToUpper(host), ":x."+rule, value)
			wantReason(t, g, r, reason)
		}
	}
}
