#!/usr/bin/env bash
# Runs every test and prints how long each suite took. build.sh test has installed and built what
# they need.
#
# Two lanes run side by side: most suites of tests/ wait for processes, CRIU and disks while the
# other lane computes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/shim.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"
cd "$ROOT"

# Code whose tests need no phosd that was built, and the rules of this tree.
lane_units() {
	local unit
	step "shim: unit tests with sanitizers" make -C hijack/shim -j "$(nproc)" OUT="$(shim_out)" test
	go_test rules ./tests/rules
	unit=$(go list ./... | grep -v '/tests/')
	# shellcheck disable=SC2086 # a list of packages
	go_test unit -timeout 15m $unit
	PHOS_ROUNDS_ALL='' CGO_ENABLED=1 go_test race -race -short -timeout 15m \
		./daemon/phosd/... ./daemon/worker/... ./daemon/api/... ./daemon/gpu/ledger ./hijack/wire/... ./internal/linux/...
}

# Everything below tests/ that drives real programs; a new package is run without being named here.
# What needs a whole machine has a script of its own, scripts/vm.sh.
lane_programs() {
	local with_tests='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' package
	go_test script -timeout 10m ./tests/script
	for package in $(go list -f "$with_tests" ./tests/... | grep -vE '/tests/(rules|script|machine)$'); do
		go_test "${package##*/}" -timeout 20m "$package"
	done
	# Again over the backend for real GPUs, whose driver is libphos.so over a second phosd. NESTED=full
	# runs all of it, for an hour; otherwise a sample that takes two minutes, besides tests/nested.
	export PHOS_TEST_NESTED=1
	if [ "${NESTED:-}" = full ]; then
		for suite in e2e checkpoint scenarios policy crash; do
			go_test "nested-$suite" -timeout 40m "./tests/$suite"
		done
	else
		nested_sample
	fi
}

export PHOS_ROUNDS_ALL=1
# The golangci-lint of "build.sh lint" vets more than go test does by itself.
export GOFLAGS="${GOFLAGS:-} -vet=off"
lanes units programs
log_times
