package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/compat"
	"sluice.dev/internal/input"
)

// printDigests prints a line for each CRD of the last source, by name, as sha256sum does: digest, two spaces, name.
func (c *checker) printDigests(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("--print-hash: give the new CRDs as a file, a directory, -, git:REV or a remote source")
	}
	src, err := input.ParseSource(args[len(args)-1])
	if err != nil {
		return err
	}
	if src.Kind == input.Cluster {
		return errors.New("--print-hash: the hash that counts is that of the new CRDs; give them as a file, a directory, -, git:REV or a remote source")
	}
	set, err := c.loadSource(ctx, src, input.Options{Stdin: c.In})
	if err != nil {
		return err
	}
	docs := slices.Clone(set.Documents)
	slices.SortFunc(docs, func(a, b input.Document) int { return strings.Compare(a.CRD.Name, b.CRD.Name) })
	for _, d := range docs {
		digest, err := compat.SpecDigest(d.CRD)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.Out, "%s  %s\n", digest, d.CRD.Name)
	}
	return nil
}
