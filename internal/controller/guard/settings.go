package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/internal/config"
)

// The guard's configuration is that of sluice check, in a ConfigMap or in files. A wrong one changes nothing: the last good one
// holds, and the caller tells the operator.

const (
	// ConfigMap has the configuration, in the namespace of the configuration.
	ConfigMap = "sluice-crd-guard"
	// ConfigKey is its key: a file as sluice check -c reads it.
	ConfigKey = "config.yaml"

	preflight = "CRDUpgradeSafety"
)

// Settings are the configuration in force. The zero value has the defaults of sluice check.
type Settings struct {
	// Rules are the IDs of the rules that a configuration may name.
	Rules []string

	current atomic.Pointer[config.Config]
	server  atomic.Pointer[version.Version]
}

// Configure reads the configuration from the data of the ConfigMap. If it is wrong, nothing changes.
func (s *Settings) Configure(data map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != ConfigKey && key != "_example" {
			return fmt.Errorf("unknown key %q; put the configuration into the key %s", key, ConfigKey)
		}
	}
	if strings.TrimSpace(data[ConfigKey]) == "" {
		s.current.Store(nil)
		return nil
	}
	c, _, err := config.Parse(ConfigKey, []byte(data[ConfigKey]), s.Rules)
	if err != nil {
		return err
	}
	return s.useConfig(c)
}

// Load reads the configuration from files.
func (s *Settings) Load(files []string) error {
	c, _, err := config.Load(config.Options{Files: files, Rules: s.Rules})
	if err != nil {
		return err
	}
	return s.useConfig(c)
}

func (s *Settings) useConfig(c *config.Config) error {
	if !c.Enabled(preflight) {
		return errors.New("preflightRules does not name " + preflight + ", which is what the guard does; to turn the guard off delete its ValidatingWebhookConfiguration, to let everything pass with a warning set mode: warn")
	}
	s.current.Store(c)
	return nil
}

// UseServerVersion sets the version of the API server. A version in the configuration takes precedence.
func (s *Settings) UseServerVersion(v *version.Version) { s.server.Store(v) }

func (s *Settings) currentConfig() *config.Config {
	if c := s.current.Load(); c != nil {
		return c
	}
	return &config.Config{}
}

// kubeVersion is the Kubernetes version whose rules apply; nil stands for that of the linked libraries.
func (s *Settings) kubeVersion() *version.Version {
	if text := s.currentConfig().KubeVersion(); text != "" {
		// It was checked when the configuration was read.
		if v, err := version.ParseGeneric(strings.TrimPrefix(text, "v")); err == nil {
			return version.MajorMinor(v.Major(), v.Minor())
		}
	}
	return s.server.Load()
}
