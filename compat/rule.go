package compat

// Which rules are there, and which one speaks first? The order of the list decides that: the first rule that
// claims a gap tells it. For example, preserve-unknown-removed stands before property-removed, so that a loss
// of all unknown fields is not told as the loss of one.

import (
	"slices"
)

// Rules returns all rules, in the order of the documentation: first those about the CRD as a whole, then those about schemas. If
// several rules could claim the same gap between two schemas, the first one gets it.
// Each call makes a new list, so that callers may sort or filter theirs. The documentation, the help and
// the tests come out of it.
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
		ownersInRemovedVersion,
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
		removedItemsKept,
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
