# shellcheck shell=bash
# How tests are run where everything that they need has been provided.

# What build.sh has just provided may not be missing silently.
REQUIRE=${REQUIRE:+$REQUIRE,}build,tinygrad,frameworks,nccl,nvml,clusterfudge,python,training
[ -z "${NVCC:-}" ] || REQUIRE=$REQUIRE,nvcc,pycuda
[ -z "${PROMTOOL:-}" ] || REQUIRE=$REQUIRE,promtool
[ -z "${CHROMIUM:-}" ] || REQUIRE=$REQUIRE,chromium
[ -z "${CRIU:-}" ] || REQUIRE=$REQUIRE,criu,root
[ -z "${HOSTS:-}" ] || REQUIRE=$REQUIRE,hosts
[ -z "${CONTAINER_ROOT:-}" ] || REQUIRE=$REQUIRE,containers,slurm
[ -z "${PACKAGE_DIST:-}" ] || REQUIRE=$REQUIRE,packages
export REQUIRE
export TORCH_PYTHON_MISSING="PyTorch is too large to download here; scripts/torch.sh unpacks one and says how to set TORCH_PYTHON"
export TORCH_WHEEL_PYTHON_MISSING="PyTorch is too large to download here; set it to a Python with torch==2.11.0 of PyPI"

# Many tests run the same programs: each is compiled once. Other files that are needed while the
# tests run are there, too, readable by users other than root.
if [ -z "${WHILE_TESTING:-}" ]; then
	WHILE_TESTING=$(mktemp -d)
	export WHILE_TESTING
	chmod 755 "$WHILE_TESTING"
	trap 'rm -rf "$WHILE_TESTING"' EXIT
fi
export PHOS_COMPILED=${PHOS_COMPILED:-$WHILE_TESTING/compiled}
mkdir -p "$PHOS_COMPILED"

# Programs of other users load libphos.so. If they cannot reach it, as below /root, they get a copy.
if [ -z "${PHOS_BIN:-}" ] && [ "$(id -u)" = 0 ] &&
	! setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$ROOT/bin/libphos.so"; then
	cp -a "$ROOT/bin" "$WHILE_TESTING/bin"
	export PHOS_BIN=$WHILE_TESTING/bin
fi

# go_test NAME ARGUMENTS...: shows a line for each test that skips or fails and each package, and
# keeps everything in a log. It does not begin when another lane has failed.
go_test() {
	local log=$LOGS/go-test-$1.log start=$SECONDS
	[ ! -e "$WHILE_TESTING/failed" ] || exit 1
	say test "$1"
	echo "go test ${*:2}" >"$log"
	if ! go test -shuffle=on -v "${@:2}" 2>&1 </dev/null | tee -a "$log" |
		grep --line-buffered -E '^(ok|FAIL|panic)|^ *--- (SKIP|FAIL)|: needs |agree with the CPU|Ran [0-9]+ tests?:'; then
		failures "$log" | tee "$WHILE_TESTING/failures-$1"
		say FAILED "$1 after $((SECONDS - start)) s; everything is in $log"
		exit 1
	fi
	printf '%5d s  %s\n' $((SECONDS - start)) "$1" >>"$WHILE_TESTING/times"
	say ok "$1 ($((SECONDS - start)) s)"
}

# failures LOG: what the first tests that failed printed last.
failures() {
	grep -nE -B 25 '^ *--- FAIL' "$1" | head -n 100 || true
	grep -nE -A 40 '^(panic|fatal error|SIG[A-Z]+): ' "$1" | head -n 60 || true
	grep -nE -A 20 '^(# |FAIL.*\[(build|setup) failed)' "$1" | head -n 40 || true
}

# lanes NAME...: runs the functions lane_NAME side by side. When one fails, the others end with the
# suite that they are in. What failed is shown again at the end, where it is looked for.
lanes() {
	local lane failed=0
	for lane; do
		(
			set -e
			trap '[ $? = 0 ] || touch "$WHILE_TESTING/failed"' EXIT
			"lane_$lane"
		) &
	done
	for lane; do wait -n || failed=1; done
	[ $failed = 0 ] && return
	tail -v -n +1 "$WHILE_TESTING"/failures-* || true
	die "some suites failed; the lines FAILED above name them"
}

# log_times: how long each suite took, the longest first.
log_times() {
	say ok "every suite passed, in $((SECONDS / 60)) min $((SECONDS % 60)) s:"
	sort -rn "$WHILE_TESTING/times"
}

# nested_sample: what of the suites runs most of the code of the backend for real GPUs in a minute,
# over a second phosd, besides tests/nested, which is made for it. PHOS_TEST_NESTED is set.
nested_sample() {
	local programs='(matmul|graphs|streams|memory|cooperative|print|language|threads)'
	go_test nested-programs -timeout 15m ./tests/e2e \
		-run "TestCUDA/$programs/shared|TestAbuse|TestFaults|TestDriverAPI/(virtual|linker|expandable)"
	PHOS_SUBJECT=modules go_test nested-modules -timeout 15m ./tests/checkpoint -run TestRandomTimes
	PHOS_SUBJECT=tinygrad go_test nested-checkpoints -timeout 15m ./tests/checkpoint \
		-run 'TestRandomTimes|TestKilledAndRestored|TestJustStarting|TestEndlessCapture|TestPartial'
}
