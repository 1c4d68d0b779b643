// Package features tests features as their users meet them: the roles features and feature-webhook as processes of their
// own, each with the rights that the manifests give it, and a real API server.
//
// The scenarios that must hold, and what shows each:
//
//	 1 gate off, create                  TestE2EReject
//	 2 three violations, one refusal     TestE2EReject
//	 3 Drop with a warning               TestE2EDrop
//	 4 disabled with objects in store    TestE2EStoredObjectsGoOn (label, finalizer, status, scale, unrelated, apply)
//	 5 added to a sibling item or key    TestE2EStoredObjectsGoOn
//	 6 removed and added again           TestE2EStoredObjectsGoOn
//	 7 both ratchets                     TestE2EStoredObjectsGoOn, TestE2EUnchanged
//	 8 enum value, where it is stored    TestE2EStoredObjectsGoOn; the two releases: package feature/typed
//	 9 two processes disagree            TestE2ESkew
//	10 webhook on, controller off        TestE2ESkew
//	11 a release back and forth          TestE2ERollBack
//	12 channel step down                 not part of what is enforced here
//	13 status after a forced step down   not part of what is enforced here
//	14 a removed gate is set             packages feature and feature/gate
//	15 bad settings                      TestE2EBadSettingsBaked, TestE2EBadSettingsLive, TestE2EWebhook
//	16 settings deleted                  TestE2EBadSettingsBaked, TestE2ESettingsDeletedLive
//	17 binding deleted and made again    TestE2EHandsOff
//	18 API server restarted ten times    TestE2ERestarts
//	19 bad definitions                   TestE2EBadDefinitions, package feature; file and line: script features_lint of internal/cli
//	20 requirements, AllAlpha            packages feature, feature/gate and feature/featuretest
//
// Settings that change with no process restarted: TestE2ESettingsChange. The webhook down, and opting in: TestE2EWebhook.
package features
