package check

// What does this CI job change? The variables of the CI system name the commit that HEAD is compared with: the base of a pull request, the
// default branch for a push to another branch, or the commit before a push. For example, GitHub's merge_group gives merge_group.base_sha. An
// event without such a commit, like a schedule, is an error: a job that compares nothing must not pass.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// environment reads a variable of the job; empty is one that is not set.
type environment func(name string) string

// ciSystem is a CI system: the variable that it always sets, how it names the base, what gets the whole history into the checkout, and where
// its user names another base.
type ciSystem struct {
	variable        string
	bases           func(environment) ([]string, error)
	history, naming string
}

const (
	fetchBranches = "git fetch origin '+refs/heads/*:refs/remotes/origin/*'"
	namingByFlag  = "with --git BASE...HEAD in place of --ci"
)

// ciSystems are the CI systems that --ci knows. Gitea and Forgejo set GitHub's variables.
var ciSystems = []ciSystem{
	{"GITHUB_ACTIONS", githubBases, "set fetch-depth: 0 for actions/checkout", "with the input base of the action, or " + namingByFlag},
	{"GITLAB_CI", gitlabBases, "set the variable GIT_DEPTH: '0' for the job, and run " + fetchBranches + " first", namingByFlag},
	{"BITBUCKET_BUILD_NUMBER", bitbucketBases, "set clone: {depth: full} for the pipeline, and run " + fetchBranches + " first", namingByFlag},
	{"JENKINS_URL", jenkinsBases, "clone without the option shallow, with the refspec +refs/heads/*:refs/remotes/origin/*, or run " + fetchBranches + " first", namingByFlag},
}

// ciSystemOf returns the CI system whose job the environment describes; nil for none.
func ciSystemOf(env func(string) string) *ciSystem {
	for i := range ciSystems {
		if env(ciSystems[i].variable) != "" {
			return &ciSystems[i]
		}
	}
	return nil
}

// ciBases returns the revisions to compare HEAD with, in the job that the environment describes: the first one
// that lacks a commit of HEAD counts. An event without a base is an error that says where the user names one.
func ciBases(env func(string) string) ([]string, error) {
	s := ciSystemOf(env)
	if s == nil {
		return nil, errors.New("--ci: this is no job of GitHub Actions, Gitea, Forgejo, GitLab, Bitbucket or Jenkins: use --git BASE...HEAD")
	}
	bases, err := s.bases(env)
	if err != nil {
		return nil, fmt.Errorf("--ci: %w: name it %s", err, s.naming)
	}
	return bases, nil
}

// noBase is the error of an event that has no commit to compare with.
func noBase(event string) error { return fmt.Errorf("%s has no commit to compare with", event) }

// isCommit reports whether a variable names a commit. CI systems write zeros if there is none. An empty variable
// is no commit either.
func isCommit(id string) bool { return strings.Trim(id, "0") != "" }

// githubEvent has the fields of an event's payload that name commits
// (https://docs.github.com/en/webhooks/webhook-events-and-payloads).
type githubEvent struct {
	Before     string `json:"before"`
	MergeGroup struct {
		BaseSHA string `json:"base_sha"`
	} `json:"merge_group"`
	Repository struct {
		DefaultBranch string `json:"default_branch"`
	} `json:"repository"`
}

// githubBases names the base of a job of GitHub Actions, Gitea or Forgejo: the target branch of a pull request,
// the base of a merge group, or for a push the default branch or the commit before
// (https://docs.github.com/en/actions/reference/workflows-and-actions/variables). Other events have no base.
func githubBases(env environment) ([]string, error) {
	name := env("GITHUB_EVENT_NAME")
	if target := env("GITHUB_BASE_REF"); target != "" { // set for pull requests only
		return []string{"origin/" + target}, nil
	}
	var event githubEvent
	if file := env("GITHUB_EVENT_PATH"); file != "" {
		data, err := os.ReadFile(file) //nolint:gosec // the CI system names it
		if err != nil {
			return nil, fmt.Errorf("the event %s: %w", name, err)
		}
		if err := json.Unmarshal(data, &event); err != nil {
			return nil, fmt.Errorf("the event %s: %s: %w", name, file, err)
		}
	}
	switch {
	case name == "merge_group" && isCommit(event.MergeGroup.BaseSHA):
		return []string{event.MergeGroup.BaseSHA}, nil
	case name == "push" && env("GITHUB_REF_TYPE") == "tag":
		return nil, noBase("a pushed tag")
	case name == "push":
		return pushBases(event.Before, env("GITHUB_REF_NAME"), event.Repository.DefaultBranch)
	}
	return nil, noBase("the event " + name)
}

// gitlabBases names the base of a job of GitLab: where a merge request left its target, or for a push the default
// branch or the commit before (https://docs.gitlab.com/ci/variables/predefined_variables/). Pipelines of tags and
// schedules have no base.
func gitlabBases(env environment) ([]string, error) {
	switch source := env("CI_PIPELINE_SOURCE"); {
	case isCommit(env("CI_MERGE_REQUEST_DIFF_BASE_SHA")):
		return []string{env("CI_MERGE_REQUEST_DIFF_BASE_SHA")}, nil
	case env("CI_COMMIT_TAG") != "":
		return nil, noBase("a pushed tag")
	case source == "push":
		return pushBases(env("CI_COMMIT_BEFORE_SHA"), env("CI_COMMIT_BRANCH"), env("CI_DEFAULT_BRANCH"))
	default:
		return nil, noBase("a pipeline of the source " + source)
	}
}

// bitbucketBases names the base of a job of Bitbucket, which has one only for pull requests: the commit of the
// target, or else its branch.
func bitbucketBases(env environment) ([]string, error) {
	switch target := env("BITBUCKET_PR_DESTINATION_BRANCH"); {
	case isCommit(env("BITBUCKET_PR_DESTINATION_COMMIT")):
		return []string{env("BITBUCKET_PR_DESTINATION_COMMIT")}, nil
	case target != "":
		return []string{"origin/" + target}, nil
	}
	return nil, noBase("a pipeline without a pull request")
}

// jenkinsBases names the base of a build of Jenkins: the target of a change request, or the last build that
// succeeded, or else the one before.
func jenkinsBases(env environment) ([]string, error) {
	// Set by multibranch pipelines for pull requests only.
	switch target := env("CHANGE_TARGET"); {
	case target != "":
		return []string{"origin/" + target}, nil
	case env("TAG_NAME") != "":
		return nil, noBase("a pushed tag")
	case isCommit(env("GIT_PREVIOUS_SUCCESSFUL_COMMIT")):
		return []string{env("GIT_PREVIOUS_SUCCESSFUL_COMMIT")}, nil
	case isCommit(env("GIT_PREVIOUS_COMMIT")):
		return []string{env("GIT_PREVIOUS_COMMIT")}, nil
	}
	return nil, noBase("the first build of a branch")
}

// pushBases returns the default branch for a push to another branch, so that each push shows all that the branch changes. For the default
// branch, or one that is moved to a commit of the default branch, it is the commit before the push.
func pushBases(before, branch, defaultBranch string) (bases []string, err error) {
	if branch != "" && defaultBranch != "" && branch != defaultBranch {
		bases = append(bases, "origin/"+defaultBranch)
	}
	if isCommit(before) {
		bases = append(bases, before)
	}
	if bases == nil {
		return nil, errors.New("the first push of a branch has no commit to compare with")
	}
	return bases, nil
}
