package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/controller/features"
)

// memoryRows are the numbers of components, and of features of each, at the start of the controller.
var memoryRows = []struct{ components, features int }{{1, 200}, {20, 50}}

// featuresMemory measures what the controller takes when it is started beside features that are there already.
func featuresMemory(ctx context.Context, c *config) (err error) {
	rows := [][]string{{"components", "features of each", "peak memory", "memory then"}}
	for _, row := range memoryRows {
		peak, then, err := memoryWith(ctx, c, row.components, row.features)
		if err != nil {
			return err
		}
		rows = append(rows, []string{fmt.Sprint(row.components), fmt.Sprint(row.features), mebibytes(peak), mebibytes(then)})
	}
	c.table(rows...)
	return nil
}

func memoryWith(ctx context.Context, c *config, components, each int) (peak, then int, err error) {
	s, err := installRoles(ctx, c.sluice, []string{"--roles=" + features.Role})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.applyYAML(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: bench}\n"); err != nil {
		return 0, 0, err
	}
	options := []string{"--roles=" + features.Role}
	for i := range components {
		k := gatedKind{name: fmt.Sprintf("memory%d", i), features: each, mode: "Live"}
		crd, component := k.crdAndComponent()
		options = append(options, "--feature-settings=bench/"+k.name)
		if err := errors.Join(s.applyYAML(ctx, crd), s.applyYAML(ctx, component)); err != nil {
			return 0, 0, err
		}
	}
	if err := s.applyManifests(ctx, options); err != nil {
		return 0, 0, err
	}
	roles, err := s.start(ctx, features.Role)
	if err != nil {
		return 0, 0, err
	}
	// The controller compiles one component after the other, and waits for the API server to have type-checked the policies of each.
	err = untilAfter(ctx, 10*patience, "the components to be enforced", func() error {
		_, body, err := fetch(ctx, s.admin, s.cluster.Server+"/apis/sluice.dev/v1alpha1/components")
		if err != nil {
			return err
		}
		var list v1alpha1.ComponentList
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		enforced := 0
		for i := range list.Items {
			if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionEnforced) && int(list.Items[i].Status.Features) == each {
				enforced++
			}
		}
		if enforced < components {
			return fmt.Errorf("%d of %d are", enforced, components)
		}
		return nil
	})
	return memoryOf(roles[0].PID(), "VmHWM"), memoryOf(roles[0].PID(), "VmRSS"), err
}
