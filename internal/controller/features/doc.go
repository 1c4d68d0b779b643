// Package features keeps a cluster in step with its Components and Features. The role features ([Controller]) writes the
// admission policies that package feature/policy makes, the webhook configuration for what policies cannot say, and the
// status of Components and Features. The role feature-webhook ([Webhook]) answers the API server for that rest.
//
// It promises:
//   - nothing is written that stands there already; what somebody else has changed or deleted is made again, and of what is
//     not wanted any more only what this controller has made is deleted;
//   - a definition that turns bad closes nothing that was open and opens nothing that was closed: its policies stay as they
//     are until it is good again or gone;
//   - settings that turn bad change nothing in baked mode; live they read as not set, as the policies read them;
//   - the settings of a live component are put back when they are gone.
//
// It does not decide what a feature means or how it is enforced: packages feature and feature/policy do.
package features
