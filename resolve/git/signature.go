package git

import (
	"context"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

func checkSigners(text string) error {
	_, err := verify.ParseCommitKeys(text)
	return err
}

// checkSignature demands that the commit, or the annotated tag by which it was named, is signed by one of the keys of the
// configuration, if there are any.
func checkSignature(text string, c commit, now func() time.Time) error {
	if text == "" {
		return nil
	}
	keys, err := verify.ParseCommitKeys(text)
	if err != nil {
		return resolve.Errorf(resolve.ReasonVerification, "the operator's %s cannot be read: %w", keySigners, err)
	}
	return notSigned(c, keys.Check(c.raw, c.tag, now))
}

func notSigned(c commit, why error) error {
	if why == nil {
		return nil
	}
	return resolve.Errorf(resolve.ReasonVerification, "commit %s is not signed as the operator demands: %w", c.id, why)
}

// signers returns the IDs of those of the policies who have signed the commit. None is an error where a policy demands
// one; whether all policies are satisfied, the framework finds out.
func (g *Resolver) signers(ctx context.Context, uri string, c commit) ([]string, error) {
	want := g.options.Policies().Commit(uri)
	if len(want.IDs()) == 0 {
		return nil, nil
	}
	ids, err := want.Commit(ctx, c.raw, c.tag, g.options.Clock.Now)
	if !want.Enforced {
		err = nil
	}
	return ids, notSigned(c, err)
}
