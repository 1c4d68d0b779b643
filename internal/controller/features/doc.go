// Package features keeps a cluster in step with its Components and Features. The role features ([Controller]) writes the admission
// policies that package feature/policy makes, the webhook configuration for the parts that policies cannot express, and the status of
// Components and Features. The role feature-webhook ([Webhook]) answers the API server for these parts.
//
// It promises:
//   - it writes nothing that is up to date, restores objects that others have changed or deleted, and deletes only objects that this controller has made;
//   - if a definition becomes bad, open features stay open and closed ones stay closed: its policies stay as they are until it is good again or deleted;
//   - settings that become bad change nothing in baked mode; in live mode they count as not set, as in the policies;
//   - if the settings of a live component are deleted, it restores them.
//
// It does not decide what a feature means or how it is enforced: packages feature and feature/policy do.
package features
