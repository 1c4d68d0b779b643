package controller

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestTheLogHasTheLevelAndTheFormatOfTheFlags(t *testing.T) {
	defer klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	for name, test := range map[string]struct {
		flags Options
		want  []string
	}{
		"default": {Options{}, []string{`"msg":"i"`, `"msg":"w"`, `"msg":"library i"`, `"msg":"library e"`}},
		"debug":   {Options{LogLevel: "debug"}, []string{`"msg":"d"`, `"msg":"i"`, `"msg":"w"`, `"msg":"library i"`, `"msg":"library e"`}},
		"verbose": {Options{verbose: true, LogLevel: "error", LogFormat: "text"}, []string{"msg=d", "msg=i", "msg=w", `msg="library i"`, `msg="library e"`}},
		"warn":    {Options{LogLevel: "warn", LogFormat: "text"}, []string{"msg=w", `msg="library e"`}},
		"error":   {Options{LogLevel: "error"}, []string{`"msg":"library e"`}},
	} {
		var out bytes.Buffer
		test.flags.Log = &out
		log, err := test.flags.newLogger()
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		klog.Info("library i")
		klog.Error("library e")
		klog.Flush()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(test.want) {
			t.Errorf("%s: %d lines, want %d\n%s", name, len(lines), len(test.want), out.String())
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: %s, want %s", name, lines[i], want)
			}
		}
	}
	for _, wrong := range []Options{{LogLevel: "loud"}, {LogFormat: "xml"}} {
		if _, err := wrong.newLogger(); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
