package policy

// Does the webhook need to see a request? Match conditions of its configuration leave out objects that use no gated part. For example,
// has(object.spec) && has(object.spec.tasks) for a part below spec.tasks.

import (
	"slices"
	"strings"

	"sluice.dev/feature"
)

// maxPrefilter bounds the places that a prefilter searches; more are not worth it.
const maxPrefilter = 64

// Prefilter returns a CEL expression over object. It is true for every object that uses one of the targets, and false for most that
// use none. It looks for the field that a use would be in, up to the first list or map on the path, so its cost does not depend on
// the size of the object. It never fails. It is empty if nothing simple is possible: every object uses a whole version, and more
// than 64 places are not searched.
func Prefilter(targets []*feature.Target) string {
	var ways []string
	for _, t := range targets {
		way := onTheWay(t)
		if way == "" {
			return ""
		}
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	if len(ways) > maxPrefilter {
		return ""
	}
	slices.Sort(ways)
	return strings.Join(ways, " || ")
}

// onTheWay asks for the fields on the way to a target.
func onTheWay(t *feature.Target) string {
	if t.WholeVersion {
		return ""
	}
	var conditions []string
	at := "object"
	for i, s := range t.Path {
		if s.Kind != feature.Field {
			break
		}
		if i > 0 {
			conditions = append(conditions, isMap(at))
		}
		conditions = append(conditions, hasField(at, s.Name))
		at = memberOf(at, s.Name)
	}
	return strings.Join(conditions, " && ")
}

// Changed returns a CEL expression over object and oldObject. It is false for updates that change only metadata and status, because
// these use no target again, and true for all other writes. If a target is a whole version, it is also true for an update whose
// managed fields add a write in that version. It never fails.
func Changed(targets []*feature.Target) string {
	ways := []string{"!(" + sameButMetadata + ")"}
	for _, t := range targets {
		if way := joinAnd(claimsVersion("object", t), "!("+claimsVersion("oldObject", t)+")"); t.WholeVersion && !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	slices.Sort(ways)
	return joinOr(ways...)
}

// ClaimFilter returns a CEL expression over request, object and oldObject, for targets that are whole versions. It is true for
// every write that falsely claims to be one in a target's version: a write in another version, or of the status, whose managed
// fields add that more than metadata, status and scale was written in the target's version. It never fails.
func ClaimFilter(t *feature.Target) string {
	return notInVersion(t.Version) + " && " + claimsVersion("object", t) + " && !(" + claimsVersion("oldObject", t) + ")"
}

// notInVersion reports whether a request is no write of an object in a version.
func notInVersion(version string) string {
	return "(request.resource.version != " + celString(version) + " || has(request.subResource) && request.subResource != '')"
}
