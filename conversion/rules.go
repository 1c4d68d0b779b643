package conversion

// What can be wrong with a conversion, and whom does it hurt? Each rule is one literal. Their order is that of
// the harm: data that is lost comes before clients that break, and before what only surprises.

import (
	"slices"

	"sluice.dev/compat"
	"sluice.dev/report"
)

// The IDs of the rules.
const (
	ruleFails       = "conversion-fails"
	ruleAnswer      = "conversion-answer-refused"
	ruleLosesValue  = "conversion-loses-value"
	ruleLosesEmpty  = "conversion-loses-empty"
	ruleLosesPruned = "conversion-loses-pruned"
	ruleAdds        = "conversion-adds-value"
	ruleDefault     = "conversion-default-differs"
	ruleInvalid     = "conversion-result-invalid"
	ruleMeta        = "conversion-metadata-changed"
	ruleRandom      = "conversion-not-deterministic"
	ruleBatch       = "conversion-batch-differs"
	ruleProtocol    = "conversion-protocol"
	ruleSlow        = "conversion-slow"
	ruleChanged     = "conversion-changed"
	ruleNotReached  = "conversion-not-reached"
	ruleCoverage    = "conversion-coverage"
)

// Rules are the rules about conversions, worst first.
func Rules() []compat.Rule {
	return []compat.Rule{
		{
			ID: ruleFails, Level: report.DataLost,
			Title: "The converter fails on a valid object",
			Why: `The API server cannot read the object in the other version, and a list that has it fails as a whole: kubectl get, controllers and the ` +
				`garbage collector all get an error instead of the list.`,
			Help: "Let the converter handle every object that the schema of the version accepts, above all missing fields and empty maps.",
		},
		{
			ID: ruleAnswer, Level: report.DataLost,
			Title: "The API server refuses the converter's answer",
			Why: `The API server compares the answer with the request: as many objects, in the same order, in the desired version, with the same kind, ` +
				`name, namespace and UID. If anything differs, the whole request fails, and the object cannot be read in that version.`,
			Help: "Copy the metadata of each object, set apiVersion to the desired one, and answer for the objects in the order of the request.",
		},
		{
			ID: ruleLosesValue, Level: report.DataLost,
			Title: "A value is lost or changed on the way to another version and back",
			Why: `A client that reads the object in the other version and writes it back loses the value for good, even if it changes nothing but a label. ` +
				`So does every write if the other version is the stored one.`,
			Help: "Convert the field, or keep what the other version cannot hold in an annotation and restore it on the way back. If the loss is deliberate, " +
				"declare it with allowLoss in the configuration.",
		},
		{
			ID: ruleLosesPruned, Level: report.DataLost,
			Title: "The converter sets a field that the other version does not declare",
			Why:   `The API server prunes the result by the schema of the version that it asked for. The field never arrives.`,
			Help:  "Declare the field in the schema of the version, or convert it to one that is declared.",
		},
		{
			ID: ruleInvalid, Level: report.ObjectsStuck, Varies: true,
			Title: "The result of a conversion is not valid in its version",
			Why: `The API server does not validate what a converter returns. It validates the next write: a client that reads the object in this version ` +
				`cannot write it back. If ratcheting tolerates the value as long as it stays, the level is objects-ratcheted.`,
			Help: "Map the value to one that the schema of the version accepts, or widen that schema.",
		},
		{
			ID: ruleBatch, Level: report.ClientsBroken,
			Title: "The answer for several objects differs from the answers for each alone",
			Why:   `The API server converts a list in one request and a single object in another. Clients see one object by list and another by get.`,
			Help:  "Convert each object on its own, without state from the one before, and answer in the order of the request.",
		},
		{
			ID: ruleSlow, Level: report.ClientsBroken,
			Title: "The conversion of an object takes too long",
			Why: `The API server waits 30 seconds for an answer. A page of a list has 500 objects, and they are converted in one request: at more than 60 ms ` +
				`for each, the list fails. Kubernetes aims at 4 ms for each object.`,
			Help: "Do no input or output in the converter. Find out what this object does differently from the others.",
		},
		{
			ID: ruleDefault, Level: report.MeaningChanged,
			Title: "A default of the other version changes the object",
			Why: `The API server fills in the defaults of a version when it reads an object that is stored in it, and when a client writes in it. A field that the ` +
				`converter leaves out gets the other version's default, and comes back as a value that nobody has set.`,
			Help: "Let the converter set the field explicitly, even if it is false, 0 or empty, or give both versions the same default.",
		},
		{
			ID: ruleAdds, Level: report.MeaningChanged,
			Title: "A value appears on the way to another version and back",
			Why:   `The converter sets a field that was not set. What was left to a default or to the controller is then fixed, and differs between objects by who read them last.`,
			Help:  "Leave defaults to the schema: a converter changes the form of an object, not what it says.",
		},
		{
			ID: ruleRandom, Level: report.MeaningChanged,
			Title: "The converter gives two answers for one object",
			Why:   `Two reads of an unchanged object differ. Watches show changes that nobody made, and controllers that compare write again and again.`,
			Help:  "Use no clock, random value, counter or order of a Go map in the converter.",
		},
		{
			ID: ruleChanged, Level: report.MeaningChanged,
			Title: "The new release of the converter gives another result",
			Why:   `Objects that are stored are read with the new converter after the upgrade: clients see another object, although nobody changed it.`,
			Help:  "Check that the change is meant. Objects that the old converter wrote must still come back as they were.",
		},
		{
			ID: ruleProtocol, Level: report.ReadersSurprised,
			Title: "The converter does not answer as the protocol says",
			Why: `To a version that it does not know, or an object that it cannot read, a converter answers with the status Failure and a message. If it answers with ` +
				`Success instead, errors stay hidden. An empty request has an empty answer.`,
			Help: "Look at the versions of the request, and answer with response.result.status: Failure and a message if one object cannot be converted.",
		},
		{
			ID: ruleLosesEmpty, Level: report.ReadersSurprised,
			Title: "An empty value is dropped or appears on the way to another version and back",
			Why: `An empty list, an empty object, "", 0, false or null is gone, or there is one where nothing was set. Go types with omitempty do that. It matters to ` +
				`clients that tell the two apart, and to server-side apply.`,
			Help: "Use pointers in the Go types of both versions where empty and missing differ.",
		},
		{
			ID: ruleMeta, Level: report.ReadersSurprised,
			Title: "The converter changes metadata other than labels and annotations",
			Why:   `The API server puts back the metadata of the original, except for labels and annotations. The change has no effect, which the author of the converter did not expect.`,
			Help:  "Change labels and annotations only.",
		},
		{
			ID:    ruleNotReached,
			Title: "No object was found that reaches a part of the schema",
			Why: `Sluice converts at least one object for each field, enum value, union branch, bound and default that a version declares. For this part it found no object that the ` +
				`API server accepts, and no proof that there is none. So the check says nothing about it.`,
			Help: "Check an object that has it, for example with the stored objects of a cluster. --budget raises the limit of the search.",
		},
		{
			ID:    ruleCoverage,
			Title: "How much of a version the converted objects reached",
			Why:   `The finding counts the fields, values and bounds of each version that the converted objects have, and gives the time per object. It does not count parts that no object can have.`,
			Help:  "No action is needed.",
		},
	}
}

// levelOf is the level of a rule's findings, unless the witness shows another.
func levelOf(id string) report.Level {
	rules := Rules()
	return rules[slices.IndexFunc(rules, func(r compat.Rule) bool { return r.ID == id })].Level
}
