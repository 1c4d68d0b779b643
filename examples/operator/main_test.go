package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"sluice.dev/examples/operator/features"
)

func TestSettingsOfTheProcess(t *testing.T) {
	o, err := parseOptions(logr.Discard(), []string{"--feature-gates=Banner=true"}, []string{"PAGES_SIGNATURE=true"})
	if err != nil {
		t.Fatal(err)
	}
	if !o.gates.Enabled(features.Banner) || !o.gates.Enabled(features.Signature) || o.gates.Enabled(features.Markdown) {
		t.Error("flag or environment are not heard")
	}
}

func TestWrongFlagsEndTheProgram(t *testing.T) {
	nowhere := func() (*rest.Config, error) { return nil, errors.New("no cluster is to be asked") }
	err := runOperator(t.Context(), logr.Discard(), []string{"--feature-gates=Baner=true,Markdown=yes"}, nil, nowhere)
	if err == nil || !strings.Contains(err.Error(), `did you mean "Banner"`) || !strings.Contains(err.Error(), `"yes" is neither true nor false`) {
		t.Errorf("error %v", err)
	}
}
