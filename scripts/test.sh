#!/usr/bin/env bash
# Every test, in the order in which a failure is cheapest to learn of. build.sh test has installed and built what they need.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"
cd "$ROOT"

step "go vet" go vet ./...
step "shim: unit tests with sanitizers" make -C hijack/shim OUT="$CACHE/shim" test

unit=$(go list ./... | grep -v '/tests/')
# shellcheck disable=SC2086 # a list of packages
go_test unit -timeout 10m $unit
CGO_ENABLED=1 go_test race -race -short -timeout 10m ./daemon/phosd/... ./daemon/worker/... ./daemon/api ./daemon/gpu/ledger ./hijack/wire/...
go_test rules ./tests/rules
go_test script -timeout 5m ./tests/script

# The rest of tests/ drives real programs through everything; a new package is run without being named here. What needs a whole
# machine has a script of its own, scripts/vm.sh.
with_tests='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
for package in $(go list -f "$with_tests" ./tests/... | grep -vE '/tests/(rules|script|machine)$'); do
	go_test "${package##*/}" -timeout 15m "$package"
done

# The same by the backend for real GPUs, whose driver is libphos.so over a second phosd. NESTED=full takes all of it, for an hour;
# else it is what runs most of that backend's code in two minutes, besides tests/nested, which is made for it.
export PHOS_TEST_NESTED=1
if [ "${NESTED:-}" = full ]; then
	for suite in e2e checkpoint scenarios policy crash; do
		go_test "nested-$suite" -timeout 40m "./tests/$suite"
	done
else
	nested_sample
fi
