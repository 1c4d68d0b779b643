package refs

import "testing"

// One repository and one image have one place, however they are spelled, and two have two.
func TestPlacesOfPins(t *testing.T) {
	for _, same := range [][]string{
		{"http://127.0.0.1:21700/b.git", "http://127.0.0.1.:21700/b", "http://[::ffff:127.0.0.1]:21700/b.git/"},
		{"https://Git.example.com/a/b", "https://git.example.com.:443/a/b.git", "git@git.example.com:a/b", "ssh://git@git.example.com/a/b.git"},
		{"https://github.com/org/repo", "https://GitHub.com/Org/Repo.GIT", "git@github.com:Org/repo", "ssh://git@ssh.github.com:443/org/Repo.git"},
		{"https://dev.azure.com/org/Project/_git/Repo", "https://dev.azure.com/Org/project/_git/repo"},
	} {
		for _, s := range same[1:] {
			if addressKey(s) != addressKey(same[0]) {
				t.Errorf("%s is %s, and %s is %s", s, addressKey(s), same[0], addressKey(same[0]))
			}
		}
	}
	if a, b := addressKey("https://git.example.com/a/b"), addressKey("https://git.example.com:8443/a/b"); a == b {
		t.Errorf("two ports have one place: %s", a)
	}
	if a, b := addressKey("https://git.example.com/a/b"), addressKey("https://git.example.com/A/b"); a == b {
		t.Errorf("two paths have one place: %s", a)
	}
	of := func(pairs ...string) params {
		var out params
		for i := 0; i < len(pairs); i += 2 {
			out = out.withValue(pairs[i+1], pairs[i])
		}
		return out
	}
	if a, b := repositoryOf(of("org", "team", "repo", "catalog", "scmType", "github")), repositoryOf(of("org", "team", "repo", "catalog", "scmType", "gitlab")); a == b {
		t.Errorf("two providers have one place: %s", a)
	}
	for _, s := range []string{"registry-1.docker.io/library/busybox:1", "Docker.io/busybox:1", "index.docker.io/library/busybox:1", "busybox:1"} {
		if got, want := imageOf(of("bundle", s)), imageOf(of("bundle", "docker.io/library/busybox:1")); got != want {
			t.Errorf("%s is %v, want %v", s, got, want)
		}
	}
}
