package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// ciRepo is a repository with a safe commit, tagged safe, and an unsafe one behind it, and a folder with sluice to put into
// PATH. Files of it have the names that a library of sluice looks for in the working directory while a program starts.
func ciRepo(t *testing.T) (repo, bin string) {
	t.Helper()
	for _, tool := range []string{"bash", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("CI scripts need %s: %v", tool, err)
		}
	}
	repo, bin = t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The program of the test is sluice under that name, as in the scripts.
	if err := os.Symlink(self, filepath.Join(bin, "sluice")); err != nil {
		t.Fatal(err)
	}
	step := func(example string, args ...string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(upgrade, example))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, "crd.yaml"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, a := range [][]string{{"add", "."}, {"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qm", example}, args} {
			cmd := exec.CommandContext(t.Context(), "git", a...)
			cmd.Dir = repo
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %s: %v\n%s", a, err, out)
			}
		}
	}
	init := exec.CommandContext(t.Context(), "git", "init", "-qb", "main", repo)
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"inflections.json", "acronyms.json"} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte("of somebody else"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	step("v1.yaml", "tag", "first")
	step("v3-safe.yaml", "tag", "safe")
	step("v2-unsafe.yaml", "update-ref", "refs/remotes/origin/main", "safe")
	return repo, bin
}

// bash runs the text of a step as a CI system does, and returns its output and exit code.
func bash(t *testing.T, repo, bin, script string, env ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", script)
	cmd.Dir = repo
	cmd.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + bin}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() < 0 {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func readYAML(t *testing.T, file string, to any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, to); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// readsRepository is what flect prints of a file of the working directory that it takes for its own.
const readsRepository = "JSON from reader"

// TestTheActionPinsWhatItUses holds the actions that action.yml runs to a commit, beside which a comment names the release.
func TestTheActionPinsWhatItUses(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^\s*(- )?uses: (.*)$`).FindAllStringSubmatch(string(data), -1)
	if len(lines) == 0 {
		t.Error("action.yml uses no action")
	}
	for _, line := range lines {
		if uses := line[2]; !regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(uses) {
			t.Errorf("%s is not pinned: OWNER/NAME@COMMIT # vX.Y.Z", uses)
		}
	}
}

// TestTheActionChecks runs the last step of action.yml as GitHub does. The step before it builds sluice.
func TestTheActionChecks(t *testing.T) {
	var action struct {
		Name, Description string
		Inputs            map[string]struct{ Description, Default string }
		Runs              struct {
			Using string
			Steps []struct {
				Name, ID, If, Uses, Shell, Run string
				With                           map[string]any
				Env                            map[string]string
			}
		}
	}
	readYAML(t, "action.yml", &action)
	last := action.Runs.Steps[len(action.Runs.Steps)-1]
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	repo, bin := ciRepo(t)
	expression := regexp.MustCompile(`\$\{\{ ([a-z._]+) \}\}`)
	for name, test := range map[string]struct {
		inputs, env map[string]string
		code        int
		want        []string
	}{
		"a pull request":       {nil, map[string]string{"GITHUB_BASE_REF": "main"}, 1, []string{"::error file=crd.yaml,line=", "FAIL  databases"}},
		"no base":              {nil, map[string]string{"GITHUB_EVENT_NAME": "schedule"}, 2, []string{"the event schedule has no commit to compare with"}},
		"another base":         {map[string]string{"inputs.base": "first"}, map[string]string{"GITHUB_EVENT_NAME": "schedule"}, 1, []string{"FAIL  databases"}},
		"a base that has HEAD": {map[string]string{"inputs.base": "HEAD"}, map[string]string{"GITHUB_BASE_REF": "main"}, 2, []string{"nothing to compare"}},
		"flags":                {map[string]string{"inputs.args": "--mode=warn --verbose"}, map[string]string{"GITHUB_BASE_REF": "main"}, 0, []string{"::warning file=crd.yaml"}},
		"paths":                {map[string]string{"inputs.paths": "crd.yaml"}, map[string]string{"GITHUB_BASE_REF": "main"}, 1, []string{"crd.yaml"}},
		"paths in lines":       {map[string]string{"inputs.paths": "inflections.json\ncrd.yaml\n"}, map[string]string{"GITHUB_BASE_REF": "main"}, 1, []string{"crd.yaml"}},
		"a misspelt path":      {map[string]string{"inputs.paths": "crd.yaml crds"}, map[string]string{"GITHUB_BASE_REF": "main"}, 2, []string{"crds: neither"}},
		"a path like a flag":   {map[string]string{"inputs.paths": "--help"}, map[string]string{"GITHUB_BASE_REF": "main"}, 2, []string{"--help"}},
		"a base with commands": {map[string]string{"inputs.base": "$(touch bad)`touch bad`;touch bad"}, nil, 2, []string{"unknown revision"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			summary := filepath.Join(t.TempDir(), "summary.md")
			env := []string{"GITHUB_ACTIONS=true", "GITHUB_STEP_SUMMARY=" + summary}
			for k, v := range test.env {
				env = append(env, k+"="+v)
			}
			for k, v := range last.Env {
				env = append(env, k+"="+expression.ReplaceAllStringFunc(v, func(e string) string {
					key := expression.FindStringSubmatch(e)[1]
					if key == "github.action_path" {
						return root
					}
					if given, ok := test.inputs[key]; ok {
						return given
					}
					return action.Inputs[strings.TrimPrefix(key, "inputs.")].Default
				}))
			}
			out, code := bash(t, repo, bin, last.Run, env...)
			if code != test.code || strings.Contains(out, readsRepository) {
				t.Errorf("exit code %d, want %d:\n%s", code, test.code, out)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
			if _, err := os.Stat(filepath.Join(repo, "bad")); err == nil {
				t.Error("a command in an input was run")
			}
			if md, err := os.ReadFile(summary); code == 1 && (err != nil || !strings.Contains(string(md), "databases")) {
				t.Errorf("the summary: %v\n%s", err, md)
			} else if code == 2 && !strings.Contains(string(md), "The CRDs were not checked: ") {
				t.Errorf("the summary does not say why nothing was checked: %s", md)
			}
		})
	}
}

// TestTheGitLabJobChecks runs the script of ci/gitlab.yml.
func TestTheGitLabJobChecks(t *testing.T) {
	var file map[string]struct {
		Stage, Image string
		Variables    map[string]string
		Rules        []map[string]string
		BeforeScript []string `json:"before_script"`
		Script       []string
		Artifacts    struct {
			When    string
			Reports map[string]string
		}
	}
	readYAML(t, "ci/gitlab.yml", &file)
	job := file["sluice-check"]
	for base, want := range map[string]int{"safe": 1, "HEAD": 2, "nosuch": 2} {
		repo, bin := ciRepo(t)
		env := []string{"GITLAB_CI=true", "CI_MERGE_REQUEST_DIFF_BASE_SHA=" + base}
		for k, v := range job.Variables {
			env = append(env, k+"="+v)
		}
		out, code := bash(t, repo, bin, strings.Join(job.Script, "\n"), env...)
		if code != want || strings.Contains(out, readsRepository) {
			t.Errorf("%s: exit code %d, want %d:\n%s", base, code, want, out)
		}
		report, err := os.ReadFile(filepath.Join(repo, job.Artifacts.Reports["junit"]))
		if err != nil || want < 2 && !strings.Contains(string(report), "<testsuite") || strings.Contains(string(report), readsRepository) {
			t.Errorf("%s: the report: %v\n%s", base, err, report)
		}
	}
}

// TestThePreCommitHookChecks runs the entry of .pre-commit-hooks.yaml as pre-commit does, before the commit.
func TestThePreCommitHookChecks(t *testing.T) {
	var hooks []struct {
		ID, Name, Description, Entry, Language, Files string
		PassFilenames                                 bool `json:"pass_filenames"`
	}
	readYAML(t, ".pre-commit-hooks.yaml", &hooks)
	hook := hooks[0]
	if hook.PassFilenames || !regexp.MustCompile(hook.Files).MatchString("config/crd/bases/a.yaml") {
		t.Errorf("%+v", hook)
	}
	repo, bin := ciRepo(t)
	entry, err := filepath.Abs(filepath.Join("../..", hook.Entry))
	if err != nil {
		t.Fatal(err)
	}
	if out, code := bash(t, repo, bin, "SLUICE=sluice "+entry); code != 0 {
		t.Errorf("nothing has changed: exit code %d\n%s", code, out)
	}
	if out, code := bash(t, repo, bin, "git reset -q --soft first; SLUICE=sluice "+entry); code != 1 {
		t.Errorf("an unsafe change: exit code %d\n%s", code, out)
	}
	if out, code := bash(t, repo, bin, "rm -rf .git; git init -q; git add .; SLUICE=sluice "+entry); code != 0 || !strings.Contains(out, "no commit yet") {
		t.Errorf("the first commit: exit code %d\n%s", code, out)
	}
	// Without SLUICE it builds the one program, once.
	copied := t.TempDir()
	fake := `mkdir -p ci bin; cp "$HOOK" ci/pre-commit.sh; printf '#!/bin/sh\necho "go $*" >>built\nprev=\nfor a; do [ "$prev" = -o ] && printf "#!/bin/sh\\necho run \\$*" >"$a" && chmod +x "$a"; prev=$a; done\n' >bin/go; chmod +x bin/go; PATH=$PWD/bin:$PATH; ci/pre-commit.sh x; ci/pre-commit.sh x; cat built`
	if out, code := bash(t, copied, bin, fake, "HOOK="+entry); code != 0 || strings.Count(out, "run check --git HEAD x") != 2 || strings.Count(out, "go build") != 1 || !strings.HasSuffix(strings.TrimSpace(out), "./cmd/sluice") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestJobsOfCISystems has the events of each system, with the variables that it sets. A job checks what its event changes, or ends
// with exit code 2: none passes without a look.
func TestJobsOfCISystems(t *testing.T) {
	zeros := strings.Repeat("0", 40)
	github := func(event string, more ...string) []string {
		return append([]string{"GITHUB_ACTIONS=true", "GITHUB_EVENT_NAME=" + event}, more...)
	}
	gitlab := func(source string, more ...string) []string {
		return append([]string{"GITLAB_CI=true", "CI_PIPELINE_SOURCE=" + source}, more...)
	}
	bitbucket := func(more ...string) []string { return append([]string{"BITBUCKET_BUILD_NUMBER=7"}, more...) }
	jenkins := func(more ...string) []string {
		return append([]string{"JENKINS_URL=https://ci.example.com/"}, more...)
	}
	const noCommit = "has no commit to compare with"
	for _, test := range []struct {
		name  string
		env   []string
		event string // the payload of GitHub's event
		code  int
		want  string
	}{
		{"GitHub, pull request", github("pull_request", "GITHUB_BASE_REF=main"), "{}", 1, "FAIL"},
		{"GitHub, pull request target, its own head checked out", github("pull_request_target", "GITHUB_BASE_REF=main"), "{}", 1, "FAIL"},
		{"GitHub, pull request target, the target checked out", github("pull_request_target", "GITHUB_BASE_REF=unsafe"), "{}", 2, "nothing to compare"},
		{"GitHub, merge group", github("merge_group"), `{"merge_group": {"base_sha": "safe"}}`, 1, "FAIL"},
		{"GitHub, merge group without a base", github("merge_group"), `{"merge_group": {}}`, 2, noCommit},
		{"GitHub, push", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=main"), `{"before": "safe"}`, 1, "FAIL"},
		{"GitHub, push of a new branch", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=x"), `{"before": "` + zeros + `", "repository": {"default_branch": "main"}}`, 1, "FAIL"},
		{"GitHub, second push of a branch", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=x"), `{"before": "HEAD", "repository": {"default_branch": "main"}}`, 1, "FAIL"},
		{"GitHub, push of a branch to a commit of the default branch", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=x"), `{"before": "safe", "repository": {"default_branch": "unsafe"}}`, 1, "FAIL"},
		{"GitHub, push of a new branch without a commit", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=x"), `{"before": "` + zeros + `", "repository": {"default_branch": "unsafe"}}`, 2, "nothing to compare"},
		{"GitHub, push without the default branch in the checkout", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=x"), `{"before": "safe", "repository": {"default_branch": "trunk"}}`, 2, "lacks it; set fetch-depth: 0 for actions/checkout\n"},
		{"GitHub, forced push of a branch", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=x"), `{"before": "1234567890123456789012345678901234567890", "repository": {"default_branch": "main"}}`, 1, "FAIL"},
		{"GitHub, first push", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=main"), `{"before": "` + zeros + `", "repository": {"default_branch": "main"}}`, 2, noCommit},
		{"GitHub, forced push", github("push", "GITHUB_REF_TYPE=branch", "GITHUB_REF_NAME=main"), `{"before": "1234567890123456789012345678901234567890"}`, 2, "unknown revision"},
		{"GitHub, tag", github("push", "GITHUB_REF_TYPE=tag", "GITHUB_REF_NAME=v1"), `{"before": "` + zeros + `"}`, 2, noCommit},
		{"GitHub, schedule", github("schedule"), "{}", 2, noCommit},
		{"GitHub, by hand", github("workflow_dispatch"), "{}", 2, noCommit + ": name it with the input base of the action, or with --git BASE...HEAD"},
		{"GitHub, an event that is no JSON", github("push"), "{", 2, "unexpected end of JSON"},
		{"Gitea, push", github("push", "GITEA_ACTIONS=true", "GITHUB_REF_NAME=main"), `{"before": "safe"}`, 1, "FAIL"},
		{"Gitea, pull request", github("pull_request", "GITEA_ACTIONS=true", "GITHUB_BASE_REF=main"), "{}", 1, "FAIL"},
		{"GitLab, merge request", gitlab("merge_request_event", "CI_MERGE_REQUEST_DIFF_BASE_SHA=safe", "CI_COMMIT_BEFORE_SHA="+zeros), "", 1, "FAIL"},
		{"GitLab, push", gitlab("push", "CI_COMMIT_BEFORE_SHA=safe", "CI_COMMIT_BRANCH=main", "CI_DEFAULT_BRANCH=main"), "", 1, "FAIL"},
		{"GitLab, push of a new branch", gitlab("push", "CI_COMMIT_BEFORE_SHA="+zeros, "CI_COMMIT_BRANCH=x", "CI_DEFAULT_BRANCH=main"), "", 1, "FAIL"},
		{"GitLab, second push of a branch", gitlab("push", "CI_COMMIT_BEFORE_SHA=HEAD", "CI_COMMIT_BRANCH=x", "CI_DEFAULT_BRANCH=main"), "", 1, "FAIL"},
		{"GitLab, first push", gitlab("push", "CI_COMMIT_BEFORE_SHA="+zeros, "CI_COMMIT_BRANCH=main", "CI_DEFAULT_BRANCH=main"), "", 2, noCommit},
		{"GitLab, tag", gitlab("push", "CI_COMMIT_BEFORE_SHA="+zeros, "CI_COMMIT_TAG=v1", "CI_DEFAULT_BRANCH=main"), "", 2, noCommit},
		{"GitLab, without the base in the checkout", gitlab("merge_request_event", "CI_MERGE_REQUEST_DIFF_BASE_SHA=1234567"), "", 2, "lacks it; set the variable GIT_DEPTH: '0' for the job"},
		{"GitLab, schedule", gitlab("schedule", "CI_COMMIT_BEFORE_SHA="+zeros, "CI_COMMIT_BRANCH=main"), "", 2, noCommit + ": name it with --git BASE...HEAD in place of --ci"},
		{"Bitbucket, without the base in the checkout", bitbucket("BITBUCKET_PR_DESTINATION_BRANCH=trunk"), "", 2, "lacks it; set clone: {depth: full} for the pipeline"},
		{"Jenkins, without the base in the checkout", jenkins("CHANGE_TARGET=trunk"), "", 2, "lacks it; clone without the option shallow"},
		{"Bitbucket, pull request", bitbucket("BITBUCKET_PR_DESTINATION_BRANCH=main", "BITBUCKET_PR_DESTINATION_COMMIT=safe"), "", 1, "FAIL"},
		{"Bitbucket, pull request of an old runner", bitbucket("BITBUCKET_PR_DESTINATION_BRANCH=main"), "", 1, "FAIL"},
		{"Bitbucket, push", bitbucket("BITBUCKET_BRANCH=main"), "", 2, noCommit},
		{"Jenkins, pull request", jenkins("CHANGE_ID=7", "CHANGE_TARGET=main"), "", 1, "FAIL"},
		{"Jenkins, push", jenkins("GIT_PREVIOUS_COMMIT=HEAD", "GIT_PREVIOUS_SUCCESSFUL_COMMIT=safe"), "", 1, "FAIL"},
		{"Jenkins, the same commit again", jenkins("GIT_PREVIOUS_SUCCESSFUL_COMMIT=HEAD"), "", 2, "nothing to compare"},
		{"Jenkins, tag", jenkins("TAG_NAME=v1", "GIT_PREVIOUS_COMMIT=safe"), "", 2, noCommit},
		{"Jenkins, first build", jenkins(), "", 2, noCommit},
		{"no CI system", nil, "", 2, "this is no job"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			repo, bin := ciRepo(t)
			env := test.env
			if test.event != "" {
				file := filepath.Join(t.TempDir(), "event.json")
				if err := os.WriteFile(file, []byte(test.event), 0o600); err != nil {
					t.Fatal(err)
				}
				env = append(env, "GITHUB_EVENT_PATH="+file)
			}
			out, code := bash(t, repo, bin, "git update-ref refs/remotes/origin/unsafe HEAD; sluice check --ci", env...)
			if code != test.code || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, test.code, test.want, out)
			}
		})
	}
}

// TestTheActionGetsARelease runs ci/install.sh against a server with a release.
func TestTheActionGetsARelease(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	arch := map[string]string{"amd64": "amd64", "arm64": "arm64"}[runtime.GOARCH]
	name := fmt.Sprintf("sluice_v1.2.3_%s_%s.tar.gz", runtime.GOOS, arch)
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	pack := tar.NewWriter(zip)
	program := []byte("#!/bin/sh\necho sluice v1.2.3\n")
	if err := errors.Join(pack.WriteHeader(&tar.Header{Name: "sluice", Mode: 0o755, Size: int64(len(program))})); err != nil {
		t.Fatal(err)
	}
	_, err = pack.Write(program)
	if err := errors.Join(err, pack.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, ref, sums string
		code            int
		found           string
	}{
		{"a release", "v1.2.3", fmt.Sprintf("%x  %s\n", sha256.Sum256(archive.Bytes()), name), 0, "found=true"},
		{"another sum", "v1.2.3", fmt.Sprintf("%x  %s\n", sha256.Sum256(nil), name), 1, ""},
		{"a release without this platform", "v1.2.3", fmt.Sprintf("%x  %s\n", sha256.Sum256(archive.Bytes()), "other.tar.gz"), 0, "found=false"},
		{"no release", "v1.2.4", "", 0, "found=false"},
		{"a branch", "main", "", 0, "found=false"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.HandleFunc("/acme/sluice/releases/download/v1.2.3/checksums.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, test.sums) })
			mux.HandleFunc("/acme/sluice/releases/download/v1.2.3/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive.Bytes()) })
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			dir := t.TempDir()
			bin, output := filepath.Join(dir, "bin"), filepath.Join(dir, "output")
			said, code := bash(t, dir, dir, filepath.Join(root, "ci", "install.sh")+" release", "ACTION_PATH="+filepath.Join(root, "ci"), "ACTION_REPOSITORY=acme/sluice",
				"ACTION_REF="+test.ref, "GITHUB_SERVER_URL="+server.URL, "SLUICE_BIN="+bin, "GITHUB_OUTPUT="+output)
			data, _ := os.ReadFile(output)
			if code != test.code || !strings.Contains(string(data), test.found) || test.found == "" && len(data) > 0 {
				t.Fatalf("exit code %d, output %q:\n%s", code, data, said)
			}
			_, err := os.Stat(filepath.Join(bin, "sluice"))
			if (err == nil) != (test.found == "found=true") {
				t.Errorf("the program: %v", err)
			}
			if test.found == "found=false" && !regexp.MustCompile(`key=[0-9a-f]{64}\n`).Match(data) {
				t.Errorf("no key in %q", data)
			}
		})
	}
}

// TestCheckersAreComparedOnReleases runs tools/compare-corpus.sh on a repository with three releases, beside a checker that objects to each
// change.
func TestCheckersAreComparedOnReleases(t *testing.T) {
	repo, bin := ciRepo(t)
	script, err := filepath.Abs(filepath.Join("..", "..", "tools", "compare-corpus.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "crdify"), []byte("#!/bin/sh\necho no\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, code := bash(t, repo, bin, `git tag v1.9.0 first; git tag v1.10.0 safe; git tag v1.11.0 HEAD; git tag v1.11.1 HEAD; git tag other HEAD
dir=$(mktemp -d); echo "example file://$PWD ." > $dir/projects; PROJECTS=$dir/projects bash `+script+` $dir/out; cat $dir/out/disagreements.tsv`)
	for _, want := range []string{
		"2 pairs. Sluice: 1 safe, 1 unsafe, 0 undecided, 0 errors.", "| crdify | 1 of 1 (100.0%) | 0 of 1 (0.0%) | 0 |",
		"\nexample/crd.yaml/v1.10.0\tcrds/example/v1.9.0/crd.yaml\tcrds/example/v1.10.0/crd.yaml\tv1.9.0\tv1.10.0\tsafe\tflags",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q in\n%s", code, want, out)
		}
	}
}
