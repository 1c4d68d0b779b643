package feature

// What is wrong, for programs? Each finding has a code beside its text. Codes are API: tests, the webhook and the
// commands tell findings apart by them, and none is used again for anything else.

import (
	"sluice.dev/internal/brief"
)

// Codes of findings about definitions.
const (
	CodeTooMany         Code = "too-many"
	CodeName            Code = "bad-name"
	CodeDuplicate       Code = "duplicate"
	CodeKeyTaken        Code = "key-taken"
	CodeBadValue        Code = "bad-value"
	CodeStages          Code = "stage-order"
	CodeStageDefault    Code = "stage-default"
	CodeRelease         Code = "bad-release"
	CodeRequires        Code = "bad-requirement"
	CodeCycle           Code = "requirement-cycle"
	CodePart            Code = "bad-part"
	CodePath            Code = "bad-path"
	CodeUnknownResource Code = "unknown-resource"
	CodeUnknownVersion  Code = "unknown-version"
	CodeUnknownField    Code = "unknown-field"
	CodeUnknownValue    Code = "unknown-enum-value"
	CodePattern         Code = "bad-pattern"
	CodeRequired        Code = "required-field"
	CodeHasDefault      Code = "field-has-default"
	CodeListKey         Code = "list-map-key"
	CodeBreaksRule      Code = "breaks-rule"
	CodeNoDrop          Code = "cannot-drop"
	CodeContradiction   Code = "contradiction"
	CodeShared          Code = "shared-with-another"
	CodeOpenVersion     Code = "open-version"
	CodeSettingsShared  Code = "settings-shared"
)

// Codes of findings about settings.
const (
	CodeUnknownKey   Code = "unknown-key"
	CodeUnknownGate  Code = "unknown-gate"
	CodeBadLevel     Code = "bad-level"
	CodeBadBool      Code = "bad-boolean"
	CodeBadSetting   Code = "bad-setting"
	CodeBadEntry     Code = "bad-entry"
	CodeTwice        Code = "set-twice"
	CodeDisagree     Code = "settings-disagree"
	CodeLocked       Code = "locked"
	CodeBeyondMax    Code = "beyond-max-level"
	CodeNeedsAnother Code = "needs-another"
	CodeRemovedGate  Code = "removed-gate"
	CodeBinary       Code = "binary-setting"
	CodeImmutable    Code = "immutable-settings"
)

// nameHint suggests the name that was meant, ready to follow a message.
func nameHint[T ~string](s string, names []T) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	return brief.Hint(s, list)
}
