package report

// How bad is a finding? The levels say whom it hurts and how, from what the API server refuses to what only
// looks different. For example, a required field that is new can leave stored objects stuck, or only tolerated
// as long as nobody touches the place.

import "slices"

// Level is a level of harm.
type Level string

// The levels, most severe first.
const (
	RefusedByAPIServer Level = "refused-by-api-server"
	DataLost           Level = "data-lost"
	ObjectsStuck       Level = "objects-stuck"
	ObjectsRatcheted   Level = "objects-ratcheted"
	WritersRefused     Level = "writers-refused"
	ClientsBroken      Level = "clients-broken"
	MeaningChanged     Level = "meaning-changed"
	ReadersSurprised   Level = "readers-surprised"
	Cosmetic           Level = "cosmetic"
)

// LevelInfo describes a level for people.
type LevelInfo struct {
	ID      Level
	Meaning string
	// Who is hurt, in the plural.
	Who string
	// Default is the severity of findings of this level, unless the configuration sets another one.
	Default Severity
}

// Levels returns all levels, most severe first. Reports and pages sort by this order. The texts are those of
// documentation and help, too.
func Levels() []LevelInfo {
	return []LevelInfo{
		{RefusedByAPIServer, "the API server's own validation refuses this update of the CRD", "those who install or upgrade the CRD", Fail},
		{DataLost, "stored data is pruned, or a stored version can no longer be read", "those who have stored objects", Fail},
		{ObjectsStuck, "a stored object can exist of which every update, every server-side apply or every write of its status is refused, whatever it changes", "those who have stored objects", Fail},
		{ObjectsRatcheted, "a stored object can exist that is refused; it can still be updated as long as the field stays unchanged", "those who have stored objects", Fail},
		{WritersRefused, "requests that were accepted are refused, although no stored object is harmed", "clients that write such objects", Fail},
		{ClientsBroken, "a name, scope, served version, subresource, selectable field or conversion that clients use is gone or changed", "clients and controllers that use it", Fail},
		{MeaningChanged, "a default changed or was removed: a missing field now means something else", "those who leave the field out", Fail},
		{ReadersSurprised, "old readers get values that they do not know: a new enum value, a wider type, null, a new default", "readers that know only the old CRD", Warn},
		{Cosmetic, "printer columns, short names, categories, a deprecation without a text, how an apply merges lists and maps", "people who read what kubectl prints or apply manifests", Warn},
	}
}

// Default returns the severity of findings of level l, unless the configuration sets another one. It returns false for a level that
// does not exist.
func (l Level) Default() (Severity, bool) {
	if i := l.severityRank(); i < len(Levels()) {
		return Levels()[i].Default, true
	}
	return "", false
}

// severityRank orders levels, most severe first; the empty and unknown levels come last.
func (l Level) severityRank() int {
	if i := slices.IndexFunc(Levels(), func(x LevelInfo) bool { return x.ID == l }); i >= 0 {
		return i
	}
	return len(Levels())
}
