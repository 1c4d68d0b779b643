// Package upstream does to custom resources what the Kubernetes API server does, with the API server's own libraries
// (k8s.io/apiextensions-apiserver): decode and prune, drop nulls, fill in defaults, validate, ratchet. It is the judge of
// every counterexample that the prover finds, and of every stored object of a cluster.
//
// What it promises: the verdict of a [Validator] is the one of an API server of the linked libraries' version, in which
// formats and CRD ratcheting are set back to [Options.KubeVersion]. The order of steps is that of
// pkg/apiserver/customresource_handler.go, pkg/registry/customresource/{strategy,status_strategy,validator}.go and
// k8s.io/apiserver/pkg/registry/rest/{create,update}.go. A panic inside those libraries comes back as an error that
// wraps [ErrPanic]; values beyond [MaxDepth] come back as [ErrTooDeep].
//
// Each step belongs to those libraries. A Validator decides simple cases of a step by itself, with code that gives the same results and
// is held against them by tests: that nothing is pruned or filled in (shape.go), that a value is valid (value.go), which rules apply to
// which value (ruleeval.go). [Validator.Exact] returns a Validator that does without that code.
//
// What it does not decide: admission (webhooks, policies, quota), conversion by webhook, field ownership, and what an API
// server of another minor version does differently beyond formats and ratcheting. The names, times and identifiers that a
// server would generate are not invented, except for the suffix of metadata.generateName.
package upstream
