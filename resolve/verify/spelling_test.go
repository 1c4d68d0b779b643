package verify

import (
	"testing"

	"sluice.dev/resolve"
)

// One repository has many spellings. A policy that is written with one of them holds for all.
func TestAPolicyHoldsForEverySpellingOfARepository(t *testing.T) {
	patterns := []string{
		`https://git\.example\.com/Team/catalog`, `https://git\.example\.com/team/catalog\.git`, `git\+https://git\.example\.com/team/[a-z]*`,
		`ssh://git@git\.example\.com/team/catalog`, `ssh://git\.example\.com/team/catalog\.git`, `git@git\.example\.com:team/catalog`,
		`git\+git@git\.example\.com:team/[a-z]*\.git`, `git\.example\.com:team/catalog`, `git://git\.example\.com/team/catalog`,
	}
	spellings := []string{
		"https://git.example.com/team/catalog", "https://git.example.com/team/catalog.git", "https://git.example.com/team/catalog/",
		"https://GIT.example.com./TEAM/Catalog", "https://user@git.example.com:443/team/catalog", "https://git.example.com:8443/team/catalog.git",
		"https://git.example.com/%74eam/catalog", "http://git.example.com/team/catalog", "git://git.example.com/team/catalog",
		"ssh://git@git.example.com/team/catalog", "ssh://git@git.example.com:2222/team/catalog.git", "ssh://org-1@git.example.com/team/catalog",
		"ssh://git.example.com/team/catalog", "git@git.example.com:team/catalog", "git@git.example.com:team/catalog.git",
		"git@git.example.com:/team/catalog", "Git@GIT.Example.com:Team/catalog", "git.example.com:team/catalog",
	}
	others := []string{
		"https://git.example.com/team/catalog-evil", "https://git.example.com.evil.example/team/catalog", "https://git.example.com/evil/team/catalog",
		"git@evil.example:git.example.com/team/catalog", "ssh://git.example.com@evil.example/team/catalog", "git@evil.example:git@git.example.com:team/catalog",
		"https://evil.example/git@git.example.com:team/catalog", "git@git.example.com:other/catalog", "team/catalog", "ssh:team/catalog", "",
	}
	key := newEd25519(t)
	for _, pattern := range patterns {
		t.Run(pattern, func(t *testing.T) {
			p := mustNew(t, NoMatchFail, Policy{Name: "p", Patterns: []string{pattern}, Keys: []Key{{PEM: pemOf(t, key)}}})
			for _, s := range spellings {
				if len(p.policiesFor("git+"+s)) != 1 {
					t.Errorf("%s escapes", s)
				}
			}
			for _, s := range others {
				if len(p.policiesFor("git+"+s)) != 0 {
					t.Errorf("%s is another repository, and matches", s)
				}
			}
		})
	}
	p := mustNew(t, "", Policy{Name: "p", Patterns: []string{`https://github\.com/tektoncd/.*`}, Keys: []Key{{PEM: pemOf(t, key)}}})
	for _, s := range []string{"git+ssh://git@ssh.github.com:443/tektoncd/catalog", "git+https://www.github.com/tektoncd/catalog"} {
		if _, err := Verify(t.Context(), p, resource(s, unsigned())); reason(t, err) != resolve.ReasonVerification {
			t.Errorf("%s escapes: %v", s, err)
		}
	}
	// Capitals matter where no repository of git is meant.
	if len(p.policiesFor("https://github.com/TektonCD/catalog/raw/main/task.yaml")) != 0 {
		t.Error("a file of a web server is matched without regard to capitals")
	}
}
