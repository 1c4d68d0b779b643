package report

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
	// Default is what a finding of this level does to the exit code unless the configuration says otherwise.
	Default Severity
}

// Levels returns all levels, most severe first.
func Levels() []LevelInfo {
	return []LevelInfo{
		{RefusedByAPIServer, "the API server's own validation refuses this update of the CRD", Fail},
		{DataLost, "stored data is pruned, or a stored version can no longer be read", Fail},
		{ObjectsStuck, "a stored object can exist that no update passes any more, not even one that leaves the field alone", Fail},
		{ObjectsRatcheted, "a stored object can exist that is refused, but ratcheting tolerates updates that leave the field alone", Fail},
		{WritersRefused, "requests that were accepted are refused, although no stored object is in trouble", Fail},
		{ClientsBroken, "a name, scope, served version, subresource, selectable field or conversion that clients use is gone or changed", Fail},
		{MeaningChanged, "a default changed or was removed: what is left out now means something else", Fail},
		{ReadersSurprised, "old readers meet what they have never seen: a new enum value, a wider type, null, a new default", Warn},
		{Cosmetic, "printer columns, short names, categories, a deprecation without a text", Warn},
	}
}

// Default returns what a finding of level l does to the exit code unless the configuration says otherwise, and false
// for a level that does not exist.
func (l Level) Default() (Severity, bool) {
	if i := l.rank(); i < len(Levels()) {
		return Levels()[i].Default, true
	}
	return "", false
}

// rank orders levels, most severe first; the empty and unknown levels come last.
func (l Level) rank() int {
	if i := slices.IndexFunc(Levels(), func(x LevelInfo) bool { return x.ID == l }); i >= 0 {
		return i
	}
	return len(Levels())
}
