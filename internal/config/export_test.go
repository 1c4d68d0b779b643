package config

// What the schemas are made of.
var (
	Known           = known
	OwnKeys         = ownKeys
	SuppressionKeys = suppressionKeys
	KappKeys        = kappKeys
	Modes           = modes
	CRDModes        = crdModes
	FailModes       = failModes
	Severities      = severities
	KubeVersion     = kubeVersion.String()
)
