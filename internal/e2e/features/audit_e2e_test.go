//go:build e2e

package features

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"sluice.dev/tools/clustertest"
)

// auditLog is where the API server writes of the kinds of some tests.
var auditLog string

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources: [{group: warn.e2e.dev}, {group: drop.e2e.dev}, {group: apps}]
- level: None
`

// byPolicy is the annotation that the API server writes for policies that warn and audit
// (k8s.io/apiserver/pkg/admission/plugin/policy/validating).
const byPolicy = "validation.policy.admission.k8s.io/validation_failure"

// audit has the API server write an audit log.
func audit() (options []clustertest.Option, remove func(), err error) {
	dir, err := os.MkdirTemp("", "features-audit-")
	if err != nil {
		return nil, nil, err
	}
	auditLog = filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "policy.yaml")
	return []clustertest.Option{
		clustertest.APIServerArg("audit-policy-file=" + policy), clustertest.APIServerArg("audit-log-path=" + auditLog),
		clustertest.APIServerArg("audit-log-mode=blocking"),
	}, func() { _ = os.RemoveAll(dir) }, os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

// audited tells what is wrong with what the audit log has of the last request for an object of the scene: the annotation has all the
// words, or is not there if there are none.
func (c *scene) audited(resource, name, key string, words ...string) error {
	f, err := os.Open(auditLog)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var last *auditv1.Event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		if o := e.ObjectRef; o != nil && o.Namespace == c.name && o.Resource == resource && o.Name == name {
			last = &e
		}
	}
	switch {
	case lines.Err() != nil:
		return lines.Err()
	case last == nil:
		return errors.New("the audit log has nothing of it")
	}
	got, ok := last.Annotations[key]
	if ok != (len(words) > 0) {
		return fmt.Errorf("the annotations are %v", last.Annotations)
	}
	for _, w := range words {
		if !strings.Contains(got, w) {
			return fmt.Errorf("%q is not in %s", w, got)
		}
	}
	return nil
}
