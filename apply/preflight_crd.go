package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/report"
)

// Does a CRD of the source harm what is stored in this cluster? The comparison of the schemas says what could be stored, so this
// preflight reads the objects as well. For example, a new maximum of 10 is a finding by itself, and a second finding names the stored
// objects that have more.

// crdUpgradeSafety compares the CRDs of the plan with those of the cluster, stored versions included. It also reads the stored
// objects of each. If the API server refuses to list them, nobody knows their fate, and the change is undecided.
func crdUpgradeSafety(ctx context.Context, p *PreflightInput) ([]report.CRD, error) {
	names, old, err := p.newCRDs(ctx)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	pairs := make([]crdcheck.Pair, len(names))
	for i, n := range names {
		pairs[i] = crdcheck.Pair{Old: old[n], New: p.Plan.crds[n]}
	}
	p.Progress(Event{Phase: "checking CRDs", Total: len(names)})
	out, err := crdcheck.Compare(ctx, pairs, crdcheck.Options{KubeVersion: p.KubeVersion}, func(n int64) { p.Progress(Event{Done: int(n), Total: len(names)}) })
	if err != nil {
		return nil, err
	}
	for i, pair := range pairs {
		if pair.Old == nil || out[i].Verdict == report.IsUnchanged {
			continue
		}
		p.Progress(Event{Phase: "reading objects of " + names[i]})
		s, err := p.Applier.client.reads.Scan(ctx, pair.Old, pair.New, cluster.ScanOptions{
			KubeVersion: p.KubeVersion,
			Progress: func(checked, remaining int64) {
				total := int64(0)
				if remaining >= 0 {
					total = checked + remaining
				}
				p.Progress(Event{Done: int(checked), Total: int(total)})
			},
		})
		if status := apierrors.APIStatus(nil); ctx.Err() == nil && errors.As(err, &status) && !apierrors.IsUnauthorized(err) {
			p.Unread(fmt.Errorf("objects of %s: %w", names[i], err))
			note := brief.OneLine(err.Error())
			if apierrors.IsForbidden(err) {
				note += "; run the command with the right to list them"
			}
			s, err = cluster.Scan{Note: note + wayPastUnread}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("objects of %s: %w", names[i], err)
		}
		if s.Renewed > 0 {
			p.Progress(Event{Note: "the listing of " + names[i] + " took longer than the server keeps its state, so some objects written meanwhile may not have been checked"})
		}
		crdcheck.Tell(&out[i], s)
	}
	return out, nil
}

// wayPastUnread follows the reason why stored objects cannot be read: the source may be what repairs it, such as a new conversion
// webhook.
const wayPastUnread = "; failMode open (--fail-mode open) applies the change unchecked, for example if it repairs a webhook"

// newCRDs returns the names of the plan's CRDs that are not up to date, and the cluster's CRDs of these names.
func (p *PreflightInput) newCRDs(ctx context.Context) (names []string, old map[string]*apiextensionsv1.CustomResourceDefinition, err error) {
	for it := range eachOf(p.Plan.Items) {
		if it.isCRD() && it.Action != Unchanged {
			names = append(names, it.Name)
		}
	}
	slices.Sort(names)
	old = map[string]*apiextensionsv1.CustomResourceDefinition{}
	var mu sync.Mutex
	c := p.Applier.client
	err = forEachIndex(ctx, len(names), cap(c.slots), func(ctx context.Context, i int) error {
		crd, err := c.reads.CRD(ctx, names[i])
		if err != nil || crd == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		old[names[i]] = crd
		return nil
	})
	return names, old, err
}
