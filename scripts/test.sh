#!/usr/bin/env bash
# Every test, in the order in which a failure is cheapest to learn of. build.sh test has installed and built what they need.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

# What build.sh has just provided may not be missing silently.
REQUIRE=${REQUIRE:+$REQUIRE,}build,tinygrad,frameworks,nvml
[ -z "${NVCC:-}" ] || REQUIRE=$REQUIRE,nvcc,pycuda
[ -z "${CRIU:-}" ] || REQUIRE=$REQUIRE,criu,root
export REQUIRE
export TORCH_PYTHON_MISSING="PyTorch is too large to bring along; scripts/torch.sh unpacks one and says how to set TORCH_PYTHON"
export TORCH_WHEEL_PYTHON_MISSING="PyTorch is too large to bring along; set it to a Python with torch==2.11.0 of PyPI"

# Many tests run the same programs: each is compiled once.
PHOS_COMPILED=$(mktemp -d)
export PHOS_COMPILED
trap 'rm -rf "$PHOS_COMPILED"' EXIT

step "go vet" go vet ./...
step "shim: unit tests with sanitizers" make -C hijack/shim OUT="$CACHE/shim" test

# go_test NAME ARGUMENTS...: shows a line for each test that skips or fails and each package, and keeps everything in a log.
go_test() {
	local log=$LOGS/go-test-$1.log
	say test "$1: ${*:2}"
	if ! go test -shuffle=on -v "${@:2}" 2>&1 </dev/null | tee "$log" |
		grep --line-buffered -E '^(ok|FAIL|panic)|^ *--- (SKIP|FAIL)|: needs |agree with the CPU|Ran [0-9]+ tests?:'; then
		grep -nE -B 40 '^ *--- FAIL|^panic|^FAIL' "$log" | tail -n 200 || true
		say FAILED "$1; everything is in $log"
		exit 1
	fi
}

unit=$(go list ./... | grep -v '/tests/')
# shellcheck disable=SC2086 # a list of packages
go_test unit -timeout 10m $unit
CGO_ENABLED=1 go_test race -race -short -timeout 10m ./daemon ./daemon/session/... ./daemon/worker/... ./daemon/rpc ./daemon/ledger ./hijack/wire/...
go_test rules ./tests/rules
go_test script -timeout 5m ./tests/script

# The rest of tests/ drives real programs through everything; a new package is run without being named here. What needs a whole
# machine has a script of its own, scripts/vm.sh.
with_tests='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
for package in $(go list -f "$with_tests" ./tests/... | grep -vE '/tests/(rules|script|machine)$'); do
	go_test "${package##*/}" -timeout 15m "$package"
done

# The same by the backend for real GPUs, whose driver is libphos.so over a second phosd. NESTED=full takes all of it, for an hour;
# else it is what runs most of that backend's code in two minutes, besides tests/nesting, which is made for it.
export PHOS_TEST_NESTED=1
if [ "${NESTED:-}" = full ]; then
	for suite in e2e checkpoint everyday policy crash; do
		go_test "nested-$suite" -timeout 40m "./tests/$suite"
	done
else
	programs='(matmul|graphs|streams|memory|cooperative|print|language|threads)'
	go_test nested-programs -timeout 5m ./tests/e2e \
		-run "TestCUDA/$programs/shared|TestTinygrad/operators|TestAbuse|TestFaults|TestDriverAPI/(virtual|linker|expandable)"
	PHOS_SUBJECT=modules go_test nested-modules -timeout 5m ./tests/checkpoint -run TestRandomMoments
	PHOS_SUBJECT=tinygrad go_test nested-checkpoints -timeout 5m ./tests/checkpoint \
		-run 'TestRandomMoments|TestKilledAndRestored|TestJustStarting|TestEndlessCapture|TestPartial'
fi
