#!/usr/bin/env bash
# Runs every test and prints how long each suite took. build.sh test has installed and built what
# they need.
#
# Suites run in lanes, side by side. First what restores no process, then what does; that needs four
# CPUs. There each lane has a pid namespace, because a restore needs the pids of the image, and
# the other lane would take them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/shim.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"
cd "$ROOT"

# The rules of this tree and the tests of single packages.
lane_units() {
	local unit
	step "shim: unit tests with sanitizers" make -C hijack/shim -j "$(nproc)" OUT="$(shim_out)" test
	go_test rules ./tests/rules
	unit=$(go list ./... | grep -vE '/tests/|/criu$')
	# shellcheck disable=SC2086 # a list of packages
	go_test unit -timeout 15m $unit
}

# Packages whose threads share memory. Not capture and load: kernels write there while they copy, on
# purpose. Then trainings: their ranks are no processes of phosd.
lane_race() {
	local race
	race=$(go list ./daemon/phosd/... ./daemon/worker/... ./daemon/api/... ./daemon/gpu/ledger ./hijack/wire/... ./internal/linux/... |
		grep -vE '/daemon/worker/(capture|load)$')
	# shellcheck disable=SC2086 # a list of packages
	CGO_ENABLED=1 go_test race -race -short -timeout 15m $race
	go_test pipeline -timeout 20m ./tests/pipeline
}

# Programs that compute on the software GPU.
lane_programs() { go_test e2e -timeout 20m ./tests/e2e; }

# Suites on clusters of hosts, and others that need a machine's tools.
ON_CLUSTERS='cluster|migrate|hosts|hollow|ethernet|page|python|docs|containers|slurm|packages|hostile|scenarios'

lane_clusters() { go_test_each "/tests/($ON_CLUSTERS)\$"; }

# Suites on one machine: everything else below tests/, so that a new package is run without being
# named here. What needs a whole machine has a script of its own, scripts/vm.sh.
lane_machine() {
	go_test criu -timeout 15m ./criu
	go_test_each -v "/tests/(rules|e2e|pipeline|machine|$ON_CLUSTERS)\$"
	PHOS_TEST_NESTED=1 nested_suites # only these: another lane may follow in this shell
}

# go_test_each [-v] PATTERN: the packages with tests below tests/ that match; with -v, the others.
go_test_each() {
	local with_tests='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' package
	for package in $(go list -f "$with_tests" ./tests/... | grep -E "$@"); do
		go_test "${package##*/}" -timeout 20m "$package"
	done
}

# The same over the backend for real GPUs, whose driver is libphos.so over a second phosd.
# NESTED=full runs all of it, for an hour; otherwise a sample that takes a minute, besides
# tests/nested.
nested_suites() {
	if [ "${NESTED:-}" = full ]; then
		for suite in e2e checkpoint nccl scenarios policy crash; do
			go_test "nested-$suite" -timeout 40m "./tests/$suite"
		done
	else
		nested_sample
	fi
}

# restoring_suites: in two lanes, each with pids of its own; one after the other where no other pid
# namespace can be had, or too few CPUs: programs under test keep two busy, and leases of one second
# end beside them.
restoring_suites() {
	if [ "$(nproc)" -ge 4 ] && unshare --pid --fork --mount-proc true 2>/dev/null; then
		lanes machine_apart clusters_apart
	else
		lane_machine
		lane_clusters
	fi
}

lane_machine_apart() { apart 0 machine; }

# Clusters wait most of the time, and what holds a lease must get a CPU at once.
lane_clusters_apart() { apart -10 clusters; }

# apart NICE LANE: runs a lane in a pid namespace, as the leader of a session there: CRIU saves no
# tree whose session is outside.
apart() {
	unshare --pid --fork --kill-child --mount-proc setsid nice -n "$1" "$ROOT/scripts/test.sh" "$2"
}

# The golangci-lint of "build.sh lint" vets more than go test does by itself.
export GOFLAGS="${GOFLAGS:-} -vet=off"
# close_inherited: files from outside are on mounts that CRIU does not find in here.
close_inherited() {
	local fd
	exec </dev/null
	for fd in /proc/self/fd/*; do
		fd=${fd##*/}
		if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi # 255 is bash's, of this script
	done
}

if [ $# = 1 ]; then
	close_inherited
	"lane_$1"
	exit
fi
lanes units programs race
restoring_suites
log_times
