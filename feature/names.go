package feature

// How do the names of one feature follow from its gate? TasksTimeout has the key tasks-timeout, the object
// demo.tasks-timeout and the label feature.sluice.dev/demo.TasksTimeout. Policies, processes and commands must find the
// same names without asking each other.

import (
	"regexp"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
)

// Names of the API.
const (
	// OptInValue is the value of the label that opts a namespace in.
	OptInValue = "enabled"
	// OptInVerb is the RBAC verb on features.sluice.dev, by the name of the Feature, that opts a user in.
	OptInVerb = "use"

	defaultLevelKey, defaultGatesKey = "enable-api-fields", "feature-gates"

	labelGroup = "feature.sluice.dev"
	maxLabel   = 63
	maxWord    = 80 // bytes of a quotation in a message
)

// Kebab returns a CamelCase name in kebab-case: TasksTimeout is tasks-timeout, CSIMigrationAWS is csi-migration-aws,
// IPv6DualStack is ipv6-dual-stack, PodHostIPs is pod-host-ips. Digits belong to the word before them.
func Kebab(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if isUpper(c) {
			afterLower := i > 0 && !isUpper(name[i-1])
			beforeLower := i > 0 && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z'
			// The v of IPv6 begins no word, and nor does the s of IPs.
			version := beforeLower && name[i+1] == 'v' && i+2 < len(name) && isDigit(name[i+2])
			plural := beforeLower && name[i+1] == 's' && (i+2 == len(name) || isUpper(name[i+2]) || isDigit(name[i+2]))
			if (afterLower || beforeLower && !version && !plural) && name[i-1] != '-' {
				b.WriteByte('-')
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// ObjectName returns the name of the Feature object of a gate, which is also its name in RBAC rules.
func ObjectName(component, gate string) string { return component + "." + Kebab(gate) }

// OptInLabel returns the label by which a namespace may use a closed feature; its value is [OptInValue].
func OptInLabel(component, gate string) string { return labelGroup + "/" + component + "." + gate }

// OptInLabels returns all labels for opting in: the one with the gate in CamelCase, and the one with the name of the Feature, if
// that is not too long for a label.
func OptInLabels(component, gate string) []string {
	out := []string{OptInLabel(component, gate)}
	if name := ObjectName(component, gate); len(name) <= maxLabel {
		out = append(out, labelGroup+"/"+name)
	}
	return out
}

// OptedIn reports whether a namespace with these labels has opted in to a feature.
func OptedIn(labels map[string]string, component, gate string) bool {
	return slices.ContainsFunc(OptInLabels(component, gate), func(l string) bool { return labels[l] == OptInValue })
}

// gateName is the form of the names of gates, which are Go identifiers too.
var gateName = regexp.MustCompile(`\A[A-Z][A-Za-z0-9]*\z`)

// clipWord shortens a user's text for messages.
func clipWord(s string) string { return brief.Clip(s, maxWord) }

// clipText is clip for sentences.
func clipText(s string) string { return brief.Clip(s, 500) }
