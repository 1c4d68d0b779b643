package features

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/input"
)

// needs collects the features that the objects of files use.
type needs struct {
	*definitions

	model     *feature.Model
	states    *feature.States
	inspector *feature.Inspector
	usage     Usage
}

// printNeeds says which features the objects of files use, and what turns on those that are off. That any is off is a finding.
func printNeeds(ctx context.Context, e *command.Env, f *usageFlags) error {
	var manifests []*input.Set
	d := &definitions{kinds: map[string]string{}}
	for i, name := range slices.Concat(f.definitions, f.files) {
		set, err := readManifests(ctx, e, name)
		if err == nil {
			err = d.addObjects(set)
		}
		if err != nil {
			return err
		}
		if i >= len(f.definitions) {
			manifests = append(manifests, set)
		}
	}
	c, err := d.componentNamed(f.component)
	if err != nil {
		return fmt.Errorf("%w; --features names the files with the definitions", err)
	}
	model, findings := rules.Define(c, d.features, feature.Options{Date: e.Now(), Resources: d.resources, PartsMayWait: true, OtherGroups: true})
	if i := slices.IndexFunc(findings, func(x feature.Finding) bool { return x.Severity == feature.Error && !x.Waits() }); i >= 0 {
		at := d.withPlace(c, &findings[i])
		return errors.New(at.String())
	}
	parsed, err := d.goodSettings(ctx, e, c, model)
	if err != nil {
		return err
	}
	n := &needs{d, model, model.Resolve(parsed, feature.Runtime{AssumeProcesses: true}), model.Inspector(), Usage{Document: command.DocumentOf("FeatureUsage"), Features: []usageOf{}}}
	var counted readObjects
	for _, set := range manifests {
		for i := range set.Objects {
			if counted.isAgain(set, &set.Objects[i]) {
				continue
			}
			if err := n.addObject(&set.Objects[i]); err != nil {
				return err
			}
		}
	}
	if n.usage.Scanned == 0 {
		return fmt.Errorf("%s: no object was found, so nothing was looked at: give files or folders with manifests", strings.Join(f.files, ", "))
	}
	switch f.output {
	case asTable:
		n.printTable(e)
	case "name":
		n.usage.printNames(e)
	default:
		if err := command.PrintDocument(e.Out, f.output, n.usage); err != nil {
			return err
		}
	}
	return command.FindingsIf(slices.ContainsFunc(n.usage.Features, func(u usageOf) bool { return !*u.On }))
}

// goodSettings are the settings of a component among the files. If they have errors, what is on with them is not known.
func (d *definitions) goodSettings(ctx context.Context, e *command.Env, c *v1alpha1.Component, model *feature.Model) (*feature.Settings, error) {
	data, from, err := d.settingsData(ctx, e, c, nil, "")
	if err != nil {
		return nil, err
	}
	parsed, findings := model.ParseSettings(data)
	var wrong []error
	for _, x := range findings {
		text := settingPlace(from, &x).placePrefix() + x.String()
		if x.Severity == feature.Error {
			wrong = append(wrong, errors.New(text))
			continue
		}
		fmt.Fprintln(e.Err, "warning: "+text)
	}
	return parsed, errors.Join(wrong...)
}

// checkVersion refuses a version that the CRD among the files lacks.
func (d *definitions) checkVersion(o *input.Object, in schema.GroupVersionResource) error {
	i := slices.IndexFunc(d.resources, func(r feature.Resource) bool { return r.Group == in.Group && r.Resource == in.Resource })
	if i < 0 {
		return nil
	}
	var names []string
	for _, v := range d.resources[i].Versions {
		names = append(names, v.Name)
	}
	if slices.Contains(names, in.Version) {
		return nil
	}
	return o.WrongAt(fmt.Sprintf("the CRD of %s has no version %q; its versions are %s", in.GroupResource(), in.Version, strings.Join(names, ", ")), "apiVersion")
}

// addObject adds the features that an object uses.
func (n *needs) addObject(o *input.Object) (err error) {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(o.JSON, &u.Object); err != nil {
		return o.Wrong(err)
	}
	gvk := u.GroupVersionKind()
	resource := n.kinds[gvk.Group+"/"+gvk.Kind]
	if resource == "" {
		if resource, err = n.guessResource(n.model, gvk); err != nil {
			return o.Wrong(err)
		}
	}
	if err := n.checkVersion(o, schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: resource}); err != nil {
		return err
	}
	n.usage.Scanned++
	uses := n.inspector.Uses(gvk.Group, gvk.Version, resource, u.Object)
	for _, f := range n.model.Features() {
		// To create the object is a write in its version.
		if slices.ContainsFunc(f.Targets, func(t feature.Target) bool {
			return t.WholeVersion && t.Group == gvk.Group && t.Resource == resource && t.Version == gvk.Version
		}) {
			uses = append(uses, feature.Use{Feature: f, Count: 1, Path: "apiVersion"})
		}
	}
	name := u.GetName()
	if prefix := u.GetGenerateName(); name == "" && prefix != "" {
		name = prefix + "*"
	}
	for _, use := range uses {
		x := n.usageOf(use.Feature)
		x.Objects, x.Uses = x.Objects+1, x.Uses+int64(use.Count)
		x.Named = append(x.Named, usedBy{
			schema.GroupResource{Group: gvk.Group, Resource: resource}.String(), u.GetNamespace(), name, use.Count, use.Path,
			lastPlace([]*input.Positions{o.Positions}, input.Steps(use.Path)...),
		})
	}
	return nil
}

// usageOf returns the entry of a feature, which it adds if there is none.
func (n *needs) usageOf(f *feature.Feature) *usageOf {
	i := slices.IndexFunc(n.usage.Features, func(u usageOf) bool { return u.Name == f.Name })
	if i >= 0 {
		return &n.usage.Features[i]
	}
	s, _ := n.states.State(f.Spec.Gate)
	x := usageOf{Name: f.Name, On: &s.Open}
	if !s.Open {
		x.Fix = s.Fix
		if f.FollowsLevel && s.Why != feature.WhyKey && (n.usage.Level == "" || f.Level == v1alpha1.LevelAlpha) {
			n.usage.Level = f.Level
		}
	}
	n.usage.Features = append(n.usage.Features, x)
	return &n.usage.Features[len(n.usage.Features)-1]
}

func (n *needs) printTable(e *command.Env) {
	if len(n.usage.Features) == 0 {
		verb := "use"
		if n.usage.Scanned == 1 {
			verb = "uses"
		}
		fmt.Fprintf(e.Err, "%s, which %s no feature\n", objectCount(n.usage.Scanned), verb)
		return
	}
	for i := range n.usage.Features {
		x := &n.usage.Features[i]
		fmt.Fprintf(e.Out, "%s: %s\n", x.Name, feature.OnOff(*x.On))
		for _, u := range x.Named {
			fmt.Fprintf(e.Out, "  %s%s %s: %s\n", u.placePrefix(), u.Resource, command.Dash(u.Name), u.Path)
		}
		if x.Fix != "" {
			fmt.Fprintf(e.Out, "  to turn it on: %s\n", x.Fix)
		}
	}
	if n.usage.Level != "" {
		fmt.Fprintf(e.Out, "the least level that opens what follows it: %s\n", n.usage.Level)
	}
}
