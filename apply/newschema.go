package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema/upstream"
)

// A source may have a CRD together with objects that only the new schema allows. A dry run uses the schema that the server has now.
// So an answer about the schema does not count for such an object. Sluice judges the object itself, by the new schema, with the API
// server's code. It leaves out what it cannot know: what mutating webhooks would fill in, and the exact result of a merge.

// changesCRDOf reports whether the plan changes the CRD of an item.
func (p *Plan) changesCRDOf(it *Item) bool {
	return slices.ContainsFunc(p.Items, func(d Item) bool { return d.isCRD() && d.Action != Unchanged && d.Name == crdOf(it) })
}

// newSchemas makes the validators for the items of a plan, each once. It is safe for concurrent use.
type newSchemas struct {
	plan *Plan
	kube *version.Version // nil stands for the newest that the build knows

	mu   sync.Mutex
	made map[schema.GroupVersionKind]*upstream.Validator
}

// newSchemas returns the validators for the plan's items; none is made yet. The server's version chooses the rules. If it cannot be
// read, the rules are those of the newest version that the build knows.
func (a *Applier) newSchemas(ctx context.Context, p *Plan) *newSchemas {
	s := &newSchemas{plan: p, made: map[schema.GroupVersionKind]*upstream.Validator{}}
	if len(p.crds) > 0 {
		if kube, err := a.client.reads.Version(ctx); err == nil {
			s.kube = kube
		}
	}
	return s
}

// of returns the validator for an item whose schema the plan changes or brings. It returns nil for other items, and if the CRD has no
// usable schema for them: the dry run of the CRD says why.
func (s *newSchemas) of(it *Item) *upstream.Validator {
	crd := s.plan.crds[crdOf(it)]
	if crd == nil || !it.mapping.pending && !s.plan.changesCRDOf(it) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, made := s.made[it.GVK()]
	if !made {
		if props, options, err := upstream.ForCRD(crd, it.Version, s.kube); err == nil {
			if v, err = upstream.New(props, options); err != nil {
				v = nil
			}
		}
		s.made[it.GVK()] = v
	}
	return v
}

// judgeByNewSchema returns an error if the server will certainly refuse an item under the CRD of the source. got is the answer to the
// dry run. An error of a value counts only if the manifest alone and the whole object have it: others may own what the manifest lacks,
// and the whole object has defaults of the old schema, or is an estimate.
func (a *Applier) judgeByNewSchema(ctx context.Context, schemas *newSchemas, it *Item, got answer) error {
	v := schemas.of(it)
	if v == nil {
		return nil
	}
	want, err := it.decodeContent()
	if err != nil {
		return err
	}
	alone, err := v.Create(ctx, want)
	if err != nil {
		return ctx.Err() // nothing is known
	}
	whole, err := a.refusalsOfWhole(ctx, schemas.plan, v, it, got)
	if err != nil {
		return err
	}
	refusals := slices.DeleteFunc(alone.Errors, func(e *field.Error) bool {
		return !slices.ContainsFunc(whole, func(o *field.Error) bool { return o.Error() == e.Error() })
	})
	refusals = append(refusals, v.RefusedNulls(want)...)
	for _, path := range alone.Pruned {
		refusals = append(refusals, field.Forbidden(field.NewPath(path), "the schema does not have this field"))
	}
	if len(refusals) == 0 {
		return nil
	}
	return fmt.Errorf("the CRD of the source refuses it: %w", apierrors.NewInvalid(it.GroupKind(), it.Name, refusals))
}

// refusalsOfWhole says why the new schema refuses the object that an item makes: the result of the dry run, if there is one, or an
// estimate.
func (a *Applier) refusalsOfWhole(ctx context.Context, p *Plan, v *upstream.Validator, it *Item, got answer) (field.ErrorList, error) {
	after := got.after
	if after == nil {
		var err error
		if after, err = it.decodeContent(); err != nil {
			return nil, err
		}
	}
	if it.now.live != nil && !it.now.live.terminating && got.replace == "" {
		return a.refusalsOfUpdate(ctx, p, v, it, after, got.after == nil)
	}
	made, err := v.Create(ctx, after)
	if err != nil {
		return nil, ctx.Err()
	}
	return made.Errors, nil
}

// refusalsOfUpdate says why the new schema refuses an update of the live object to after. With merge, after is the manifest, and the
// client computes what an apply makes of it. The error says that the API server will refuse any apply to the live object.
func (a *Applier) refusalsOfUpdate(ctx context.Context, p *Plan, v *upstream.Validator, it *Item, after map[string]any, merge bool) (field.ErrorList, error) {
	if it.mapping.before != "" {
		if converts, err := a.convertsByWebhook(ctx, p, it); converts || err != nil {
			return nil, err // only the webhook knows the live object in the new version
		}
	}
	live, err := a.client.fetchObject(ctx, it.livePath())
	if err != nil || live == nil {
		return nil, err
	}
	live["apiVersion"] = it.Group + "/" + it.Version
	if why, err := v.Unappliable(live); err == nil && why != "" {
		return nil, fmt.Errorf("the object in the cluster does not fit the CRD of the source, and the API server refuses every apply to such an object: %s; change or delete it first", why)
	}
	if merge {
		if after, err = it.estimateApply(live, after); err != nil {
			return nil, err
		}
	}
	updated, err := v.Update(ctx, after, live, v.Ratchets())
	if err != nil {
		return nil, ctx.Err()
	}
	return updated.Errors, nil
}

// livePath is the path of the item in a version that the server serves now.
func (i *Item) livePath() string {
	return listPath(i.Group, cmp.Or(i.mapping.before, i.Version), i.mapping.resource, i.Namespace) + "/" + i.Name
}
