#!/bin/sh
# Checks that imports run one way: each package may import only those below it,
# and only the root package may import the Fluent Bit binding and cgo.
set -eu

module=$(go list -m)
status=0

# forbid PACKAGES PATTERN WHY: no package of the list may import what matches.
forbid() {
	bad=$(go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}' $1 | grep -E " ($2)\$" || true)
	if [ -n "$bad" ]; then
		echo "$3:"
		echo "$bad"
		status=1
	fi
}

below_root=$(go list ./... | grep -v "^$module\$")
forbid "$below_root" 'github.com/fluent/fluent-bit-go/.*|C' "only the root package may import the Fluent Bit binding and cgo"
forbid "$module/plugin/record" "$module/.*" "plugin/record imports nothing of this module"
forbid "$module/plugin/truncate" "$module/.*" "plugin/truncate imports nothing of this module"
forbid "$module/plugin/ledger" "$module/.*" "plugin/ledger imports nothing of this module"
forbid "$module/plugin/deadletter" "$module/.*" "plugin/deadletter imports nothing of this module"
forbid "$module/batch" "$module/.*" "batch imports nothing of this module"
forbid "$module/batch/webhook" "$module/.*" "batch/webhook imports nothing of this module"
forbid "$module/plugin" "$module" "plugin does not import the root package"
forbid "$(go list ./cmd/... | grep -v /checkconfig\$)" "$module/.*" "the commands stand alone"
forbid "$module/cmd/checkconfig" "$module(/[^p].*)?" "cmd/checkconfig imports plugin alone"
exit $status
