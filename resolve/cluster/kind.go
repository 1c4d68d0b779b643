package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/resolve"
)

// Tekton's requests name a kind without its group, task for example. The operator's list of kinds then says which groups it can be in,
// so that a CRD of the same kind in another group is never read by accident.

// allowsKind reports whether an entry allows a kind, in lower case. Only the name of Secrets allows these.
func allowsKind(a resolve.Kind, kind, group string) bool {
	if kind == "secret" && group == "" {
		return a == resolve.Kind{Name: "secret"}
	}
	return a.Matches(kind, group)
}

// requestedMapping returns the kind that a request means, out of the kinds that the operator allows.
func (r *Resolver) requestedMapping(ctx context.Context, req *resolve.Request) (*meta.RESTMapping, error) {
	list := cmp.Or(req.Config[KeyAllowedKinds], DefaultAllowedKinds)
	allowed, err := resolve.ParseKinds(list)
	if err != nil {
		return nil, resolve.Errorf(resolve.ReasonForbidden, "the operator's list of allowed kinds is wrong: %w", err)
	}
	kind, group, version, given, err := requestedKind(req)
	if err != nil {
		return nil, &resolve.Error{Reason: resolve.ReasonInvalid, Msg: err.Error()}
	}
	groups := []string{group}
	if !given {
		if groups, err = candidateGroups(allowed, kind, list); err != nil {
			return nil, err
		}
	}
	var found []*meta.RESTMapping
	for _, g := range groups {
		if !slices.ContainsFunc(allowed, func(a resolve.Kind) bool { return allowsKind(a, kind, g) }) {
			continue
		}
		m, err := r.client.Mapping(ctx, g, version, kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, classifyError(ctx, "the kinds of the API server", err)
		}
		found = append(found, m)
	}
	return pickMapping(found, groups, allowed, kind, list)
}

// pickMapping returns the only kind that was found. Several are an error, because the resolver must not guess between groups. With
// none, the error tells a kind that the cluster does not have from one that is not allowed.
func pickMapping(found []*meta.RESTMapping, groups []string, allowed []resolve.Kind, kind, list string) (*meta.RESTMapping, error) {
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		for _, g := range groups {
			if slices.ContainsFunc(allowed, func(a resolve.Kind) bool { return allowsKind(a, kind, g) }) {
				return nil, resolve.Errorf(resolve.ReasonNotFound, "the cluster has no kind %s", schema.GroupKind{Group: g, Kind: kind})
			}
		}
		return nil, notAllowed(kind, list)
	}
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = m.GroupVersionKind.GroupVersion().String()
	}
	return nil, resolve.Errorf(resolve.ReasonInvalid, "the kind %q is in several groups: set the parameter %s to one of %s", kind, ParamAPIVersion, strings.Join(names, ", "))
}

func notAllowed(kind, list string) error {
	return resolve.Errorf(resolve.ReasonForbidden, "the operator does not allow objects of the kind %q to be read, but only: %s", kind, strings.Join(resolve.SplitList(list), ", "))
}

// requestedKind reads the kind, in lower case, and the group and version of a request; given reports whether it names the group.
func requestedKind(req *resolve.Request) (kind, group, version string, given bool, err error) {
	kind, group, given = strings.Cut(strings.ToLower(req.Get(ParamKind)), ".")
	if err := checkKindName(kind); err != nil {
		return "", "", "", false, err
	}
	apiVersion := req.Get(ParamAPIVersion)
	if apiVersion == "" {
		return kind, group, "", given, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Version == "" {
		return "", "", "", false, fmt.Errorf("%s %q: use GROUP/VERSION, or VERSION for the core group", ParamAPIVersion, apiVersion)
	}
	if given && group != gv.Group {
		return "", "", "", false, fmt.Errorf("%s says the group %q, %s says %q", ParamKind, group, ParamAPIVersion, gv.Group)
	}
	return kind, gv.Group, gv.Version, true, nil
}

// candidateGroups are the groups that a kind without a group may be in. These are the groups for which the operator's list has the kind
// by name; if there are none, the groups that the list allows as a whole.
func candidateGroups(allowed []resolve.Kind, kind, list string) ([]string, error) {
	var named, whole []string
	anyGroup := false
	for _, a := range allowed {
		switch {
		case a.All:
			anyGroup = true
		case a.Name == kind:
			named = append(named, a.Group)
		case a.Name == "*":
			whole = append(whole, a.Group)
		}
	}
	out := named
	if len(out) == 0 {
		out = whole
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > 0 {
		return out, nil
	}
	if anyGroup {
		return nil, resolve.Errorf(resolve.ReasonInvalid, "the group of the kind %q is not known: set the parameter %s", kind, ParamAPIVersion)
	}
	return nil, notAllowed(kind, list)
}

func checkKindName(kind string) error {
	if len(validation.IsDNS1035Label(kind)) > 0 {
		return fmt.Errorf("%q is not the name of a kind", kind)
	}
	return nil
}

// checkKindParam accepts KIND and KIND.GROUP in any case. Whether there is such a kind, and whether it is allowed, is decided later.
func checkKindParam(s string) error {
	kind, group, given := strings.Cut(strings.ToLower(s), ".")
	if given && len(validation.IsDNS1123Subdomain(group)) > 0 {
		return fmt.Errorf("%q is not the group of a kind", group)
	}
	return checkKindName(kind)
}

func checkAPIVersion(s string) error {
	gv, err := schema.ParseGroupVersion(s)
	if err != nil || len(validation.IsDNS1035Label(gv.Version)) > 0 || (gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0) {
		return errors.New("use GROUP/VERSION, or VERSION for the core group")
	}
	return nil
}
