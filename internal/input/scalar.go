package input

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// resolve gives a plain (unquoted) YAML scalar its kind and JSON literal, as YAML 1.1 is read by sigs.k8s.io/yaml, and
// so by kubectl: yes, no, on and off are booleans, 010 is eight. It returns false for what has no JSON form (.inf and
// .nan) and is left to the library.
func resolve(s string) (kind, string, bool) {
	if s == "" {
		return kindNull, "", true
	}
	switch c := s[0]; {
	case c >= '0' && c <= '9', c == '-', c == '+':
		return resolveNumber(s)
	case c == '.':
		switch s {
		case ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF":
			return kindNull, "", false
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return floatLiteral(f)
		}
		return kindString, s, true
	}
	return resolveWord(s), s, true
}

func resolveWord(s string) kind {
	if len(s) > 5 {
		return kindString
	}
	switch s {
	case "true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return kindTrue
	case "false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return kindFalse
	case "~", "null", "Null", "NULL":
		return kindNull
	}
	return kindString
}

// resolveNumber resolves what begins like a number. Timestamps need no care: no number has a minus after four digits.
func resolveNumber(s string) (kind, string, bool) {
	switch s {
	case "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF":
		return kindNull, "", false
	}
	if isDecimal(s) {
		return kindNumber, s, true
	}
	plain := strings.ReplaceAll(s, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return kindNumber, strconv.FormatInt(i, 10), true
	}
	if u, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return kindNumber, strconv.FormatUint(u, 10), true
	}
	if isFloat(plain) {
		if f, err := strconv.ParseFloat(plain, 64); err == nil {
			return floatLiteral(f)
		}
	}
	// strconv has understood 0b already; what is left is a sign in the wrong place, which the library takes.
	if digits, ok := strings.CutPrefix(plain, "0b"); ok {
		if i, err := strconv.ParseInt(digits, 2, 64); err == nil {
			return kindNumber, strconv.FormatInt(i, 10), true
		}
	} else if digits, ok := strings.CutPrefix(plain, "-0b"); ok {
		if i, err := strconv.ParseInt("-"+digits, 2, 64); err == nil {
			return kindNumber, strconv.FormatInt(i, 10), true
		}
	}
	return kindString, s, true
}

// isDecimal is true for integers that are their own JSON literal: no sign but minus, no leading zero, 18 digits at most.
func isDecimal(s string) bool {
	d := strings.TrimPrefix(s, "-")
	if d == "" || len(d) > 18 || d[0] == '0' && s != "0" {
		return false
	}
	for i := range len(d) {
		if d[i] < '0' || d[i] > '9' {
			return false
		}
	}
	return true
}

// isFloat is true for [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
func isFloat(s string) bool {
	digits := func() int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n
	}
	sign := func() {
		if s != "" && (s[0] == '-' || s[0] == '+') {
			s = s[1:]
		}
	}
	sign()
	whole := digits()
	if s != "" && s[0] == '.' {
		s = s[1:]
		if digits() == 0 && whole == 0 {
			return false
		}
	} else if whole == 0 {
		return false
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		sign()
		if digits() == 0 {
			return false
		}
	}
	return s == ""
}

// floatLiteral writes f as encoding/json does.
func floatLiteral(f float64) (kind, string, bool) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return kindNull, "", false
	}
	b, err := json.Marshal(f)
	if err != nil {
		return kindNull, "", false
	}
	return kindNumber, string(b), true
}
