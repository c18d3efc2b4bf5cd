//go:build tools

// Names the program that tests/assets/build makes, so that go.mod keeps its modules.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
