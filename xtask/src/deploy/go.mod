module strict

go 1.24.0

require (
	k8s.io/api v0.34.1
	sigs.k8s.io/yaml v1.6.0
)
