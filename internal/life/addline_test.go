package life

import "testing"

func TestALineOfTheChangelogStandsUnderItsRelease(t *testing.T) {
	const line = "- new\n"
	for text, want := range map[string]string{
		"":                               line,
		"# Log\n":                        "# Log\n" + line,
		"## Unreleased\n":                "## Unreleased\n\n" + line,
		"## v1.3.0\n\n- a\n\n## v1.2.0":  "## v1.3.0\n\n- a\n" + line + "\n## v1.2.0",
		"# Log\n\n## [1.3.0]\n\n- a\n":   "# Log\n\n## [1.3.0]\n\n- a\n" + line,
		"# Log\n\n## v1.2.0\n\n- a\n":    "# Log\n\n## v1.3.0\n\n" + line + "\n## v1.2.0\n\n- a\n",
		"## 1.2 (2024)\n- a\n## 1.1\n":   "## v1.3.0\n\n" + line + "\n## 1.2 (2024)\n- a\n## 1.1\n",
		"## Next\n\n- a\n\n## v1.2.0\n":  "## Next\n\n- a\n" + line + "\n## v1.2.0\n",
		"intro\n\n## v1.3.0-rc.1\n- a\n": "intro\n\n## v1.3.0-rc.1\n- a\n" + line,
	} {
		if got := addLine(text, "v1.3.0", line); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
