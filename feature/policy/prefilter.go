package policy

import (
	"slices"
	"strings"

	"sluice.dev/feature"
)

// maxPrefilter is how many places a prefilter looks for; more are not worth the question.
const maxPrefilter = 64

// Prefilter writes a CEL expression over object that is true for every object that uses one of the targets, and false for most
// that use none: it looks for the field in which a use would be, up to the first list or map on the way, so that its cost does
// not depend on the size of the object. It never fails. It is empty where nothing simple can be said: a whole version is used
// by every object, and more than 64 places are not looked for.
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
		conditions = append(conditions, has(at, s.Name))
		at = member(at, s.Name)
	}
	return strings.Join(conditions, " && ")
}

// Changed writes a CEL expression over object and oldObject that is false for updates which change nothing but metadata and status, and
// true for all other writes: no target is used anew by the former. Where a target is a whole version it is true, too, for an update after
// which managed fields say that the object was written in that version, and before which they did not. It never fails.
func Changed(targets []*feature.Target) string {
	ways := []string{"!(" + sameButMetadata + ")"}
	for _, t := range targets {
		if way := and(claim("object", t), "!("+claim("oldObject", t)+")"); t.WholeVersion && !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	slices.Sort(ways)
	return or(ways...)
}

// ClaimFilter writes a CEL expression over request, object and oldObject that is true for every write that claims to have been made
// in a target's version and was not: one of another version, or of the status, after which managed fields say that more than metadata,
// status and scale was written in the version, and before which they did not. It is for targets that are whole versions, and never
// fails.
func ClaimFilter(t *feature.Target) string {
	return elsewhere(t.Version) + " && " + claim("object", t) + " && !(" + claim("oldObject", t) + ")"
}

// elsewhere tells whether a request is no write of an object in a version.
func elsewhere(version string) string {
	return "(request.resource.version != " + quote(version) + " || has(request.subResource) && request.subResource != '')"
}
