package git

import (
	"time"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// A commit can be demanded to be signed in two ways: by the key allowed-signers of the configuration, which is checked here, and by
// policies of package verify, for which the resolver only reports who has signed.

// checkSignature requires a signature by one of the keys of each list. The commit or the annotated tag that named it must have it.
func checkSignature(lists []string, c commit, now func() time.Time) error {
	for _, text := range lists {
		keys, err := verify.ParseCommitKeys(text)
		if err != nil {
			return resolve.Errorf(resolve.ReasonVerification, "the operator's %s cannot be read: %w", keySigners, err)
		}
		if err := notSigned(c, keys.Check(c.raw, c.tag, now)); err != nil {
			return err
		}
	}
	return nil
}

// notSigned is the error for a commit that lacks a signature; nil for no reason.
func notSigned(c commit, why error) error {
	if why == nil {
		return nil
	}
	return resolve.Errorf(resolve.ReasonVerification, "commit %s is not signed as the operator demands: %w", c.id, why)
}

// commitSigners returns the IDs of the keys and identities of the policies that have signed the commit. If a policy demands a signature
// and there is none, that is an error. The framework checks whether all policies are satisfied.
func (g *Resolver) commitSigners(uri string, c commit) ([]string, error) {
	want := g.options.Policies().Commit(uri)
	if len(want.IDs()) == 0 {
		return nil, nil
	}
	ids, err := want.Commit(c.raw, c.tag, g.options.Clock.Now)
	if !want.Enforced {
		err = nil
	}
	return ids, notSigned(c, err)
}
