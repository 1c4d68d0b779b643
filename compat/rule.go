package compat

import (
	"context"
	"slices"

	"sluice.dev/report"
)

// Rule is one thing that is looked for, and its documentation. Texts are plain, with paragraphs separated by empty lines.
type Rule struct {
	// ID is the name in findings and configurations, kebab-case. It is never used for something else later.
	ID string
	// Title says in a few words what the rule reports, without a full stop.
	Title string
	// Level is the level of its findings, or of most of them where Varies is set; empty for rules that only give notes.
	Level report.Level
	// Varies is true if the level of a finding depends on its witness.
	Varies bool
	// Why explains whom the change harms and how. Help explains the way out.
	Why, Help string
	// Unsafe is a change that the rule reports.
	Unsafe Example
	// Instead is the recommended alternative to Unsafe.New, as YAML. The rule does not report it, and it harms no stored object: if
	// it still fails, then at writers-refused only. It is empty if there is nothing to do. Tests run it.
	Instead string

	// whole looks at a CRD as a whole; claim takes a gap between two schemas and says what it is, or false. Each rule has
	// one of them.
	whole func(context.Context, *comparison) []report.Finding
	claim func(*change) (string, bool)
	// outcome is that of its findings, where it is not decided by the witness.
	outcome report.Outcome
	// inSpec is set where whole looks at schemas, and the examples are properties.
	inSpec bool
}

// Example is a change, as fragments of YAML, for people and for tests.
type Example struct {
	// Old and New are the two versions: for rules about the CRD as a whole fragments of its spec, for rules about schemas
	// properties of the object's spec. Empty means that there is no such CRD.
	Old, New string
}

// InSpec reports whether the rule's examples are properties of the object's spec, not fragments of the CRD's.
func (r *Rule) InSpec() bool { return r.claim != nil || r.inSpec }

// Rules returns all rules, in the order of the documentation: first those about the CRD as a whole, then those about schemas. If
// several rules could claim the same gap between two schemas, the first one gets it.
func Rules() []Rule {
	return []Rule{
		crdRefusedByAPIServer,
		oldCRDInvalid,
		crdRemoved,
		groupChanged,
		kindChanged,
		pluralChanged,
		singularChanged,
		listKindChanged,
		scopeChanged,
		storedVersionRemoved,
		servedVersionRemoved,
		versionUnserved,
		storageVersionChanged,
		conversionStrategyChanged,
		conversionWebhookDropped,
		webhookConversionAdded,
		versionErasesData,
		versionsContradict,
		addedInOneVersion,
		preserveUnknownFieldsDisabled,
		statusSubresourceRemoved,
		statusSubresourceAdded,
		scaleSubresourceRemoved,
		scaleSubresourceChanged,
		scaleValueRefused,
		selectableFieldRemoved,

		oddValueRefused,
		preserveUnknownRemoved,
		additionalPropertiesNarrowed,
		propertyRemoved,
		nullableRemoved,
		typeAdded,
		typeNarrowed,
		typeChanged,
		enumAdded,
		enumValueRemoved,
		patternAdded,
		patternChanged,
		listForStringRefused,
		formatAdded,
		formatChanged,
		minimumRaised,
		maximumLowered,
		multipleOfChanged,
		minLengthRaised,
		maxLengthLowered,
		minItemsRaised,
		maxItemsLowered,
		uniqueItemsAdded,
		minPropertiesRaised,
		maxPropertiesLowered,
		requiredAdded,
		listMapKeysChanged,
		listTypeChanged,
		embeddedResourceAdded,
		allOfTightened,
		anyOfTightened,
		oneOfTightened,
		notTightened,
		transitionRuleAdded,
		validationRuleChanged,
		validationRuleAdded,
		defaultInvalid,
		defaultRemoved,
		defaultChanged,
		defaultAdded,
		schemaChanged,

		enumValueAdded,
		enumRemoved,
		typeWidened,
		nullableAdded,

		listMergeChanged,
		mapMergeChanged,
		printerColumnRemoved,
		printerColumnChanged,
		shortNameRemoved,
		categoryRemoved,
		deprecationWithoutWarning,
	}
}

// Lookup returns the rule with the ID, and false if there is none.
func Lookup(id string) (Rule, bool) {
	rules := Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}
