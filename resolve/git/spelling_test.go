package git

import (
	"net/url"
	"strings"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

func TestAnotherSpellingOfAHostEscapesNoPolicy(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	u, _ := url.Parse(s.URL)
	g := newResolver(t, nil)
	for name, host := range map[string]string{
		"as it is":             u.Host,
		"with a dot":           u.Hostname() + ".:" + u.Port(),
		"with zeros":           u.Hostname() + ":00" + u.Port(),
		"with both":            u.Hostname() + ".:0" + u.Port(),
		"by SSH, with a dot":   "ssh://git@" + u.Hostname() + ".:" + u.Port(),
		"by SSH, with a zero ": "ssh://git@" + u.Hostname() + ":0" + u.Port(),
	} {
		t.Run(name, func(t *testing.T) {
			address := host + "/r.git"
			if !strings.Contains(address, "://") {
				address = "http://" + address
				wantData(t, g, ask(nil, "url", address, "pathInRepo", "task.yaml"), "kind: Task\n")
			}
			wantReason(t, g, ask(nil, "url", address, "pathInRepo", "task.yaml", ":policy", "deny: [{repository: '"+u.Host+"/**'}]"), resolve.ReasonForbidden)
			// Nor what the operator demands for the host.
			wantReason(t, g, ask(nil, "url", address, "pathInRepo", "task.yaml", ":x.hosts", u.Host, ":x.policy", "deny: [{repository: '**'}]"), resolve.ReasonForbidden)
		})
	}
	for _, bad := range []string{
		"https://ｇit.example.com/r.git", "https://git.example.com:0/r.git", "https://git.example.com:65536/r.git", "https://./r.git",
		"git@.:r.git", "git@bücher.example:r.git",
	} {
		wantReason(t, g, ask(nil, "url", bad, "pathInRepo", "task.yaml"), resolve.ReasonInvalid)
	}
}

func TestWhatAHostDemandsHoldsForItsAPI(t *testing.T) {
	answers := map[string]string{}
	server, asked := scmServer(t, answers, "")
	u, _ := url.Parse(server.URL)
	sec := secrets{"ns/mine": {"token": []byte("t")}}
	g := newResolver(t, nil)
	base := []string{
		":ca-bundle", gittest.PEM(server.Certificate().Raw), ":x.hosts", u.Host, ":y.hosts", "git.example.com",
		"serverURL", server.URL, "token", "mine", "org", "org", "repo", "re.po", "pathInRepo", "x",
	}
	for name, c := range map[string]struct {
		pairs  []string
		reason resolve.Reason
	}{
		"a policy":                         {[]string{":x.policy", "deny: [{repository: '**'}]"}, resolve.ReasonForbidden},
		"signatures":                       {[]string{":x.allowed-signers", "someone"}, resolve.ReasonVerification},
		"what is for another host":         {[]string{"configKey", "y"}, resolve.ReasonForbidden},
		"another spelling of it":           {[]string{":x.policy", "deny: [{repository: '**'}]", "serverURL", "https://" + u.Hostname() + ".:" + u.Port()}, resolve.ReasonForbidden},
		"what the plain one demands, too":  {[]string{":policy", "deny: [{repository: '**'}]"}, resolve.ReasonForbidden},
		"signatures for the plain one too": {[]string{":allowed-signers", "someone"}, resolve.ReasonVerification},
	} {
		t.Run(name, func(t *testing.T) {
			wantReason(t, g, ask(sec, append(base, c.pairs...)...), c.reason)
			if asked.Load() != 0 {
				t.Error("the server was asked")
			}
		})
	}
}
