package feature

import (
	"slices"
	"testing"
)

func TestTextsOfNumbers(t *testing.T) {
	for text, want := range map[string][]string{
		"2": {"2"}, "2.0": {"2"}, "2e0": {"2"}, "-0": {"-0", "0"}, "12345678": {"1.2345678e+07", "12345678"}, "1e3": {"1000"}, "0.5": {"0.5"},
		"9007199254740993": {"9007199254740993"}, "1e19": {"1e+19"}, "1e400": nil,
		"": nil, "two": nil, "02": nil, "+2": nil, ".5": nil, "5.": nil, "0x1": nil, "1_000": nil, "Infinity": nil, "NaN": nil, " 2": nil, "2 ": nil,
	} {
		if got := NumberTexts(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestNamesInKebabCase(t *testing.T) {
	for name, want := range map[string]string{
		"TasksTimeout": "tasks-timeout", "CSIMigrationAWS": "csi-migration-aws", "IPv6DualStack": "ipv6-dual-stack", "TLSv13": "tlsv13",
		"UseIPv4": "use-ipv4", "KMSv2KDF": "kmsv2-kdf", "APIVersion": "api-version", "AVersion2": "a-version2", "CRDv": "cr-dv", "A": "a",
	} {
		if got := Kebab(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
