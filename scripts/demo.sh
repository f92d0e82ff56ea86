#!/usr/bin/env bash
# Trains a small network with an unmodified framework through phosd, on the software GPU, and shows it from both sides.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

run=$(mktemp -d /run/phos-demo-XXXXXX)
export PHOS_SOCKET=$run/phosd.sock PATH=$ROOT/bin:$PATH

stop() {
	trap - EXIT
	[ -z "${training:-}" ] || kill "$training" 2>/dev/null || true
	pos_cli --stop --force >/dev/null 2>&1 || true
	umount "$run/sessions" 2>/dev/null || true
	rm -rf "$run"
}
trap stop EXIT

show() {
	printf '\n$ %s\n' "$*"
	"$@"
}

show pos_cli --start --target daemon --gpus=soft:1 --runtime-dir="$run" --config=/dev/null --log-file="$run/phosd.log"
eval "$(pos_cli --env)"
mkdir "$run/job"
: >"$run/output"
cd "$run/job"
echo 'job_name: pictures' >pos.yaml

printf '\n$ %s\n' "env \$phos python3 convnet.py"
# shellcheck disable=SC2154,SC2086 # phos is set by the eval, and is several words
env $phos DEV=CUDA:PTX CACHEDB="$run/kernels.db" PYTHONDONTWRITEBYTECODE=1 \
	"$TINYGRAD_PYTHON" "$ROOT/tests/workloads/tinygrad/convnet.py" --watch >>"$run/output" 2>&1 &
training=$!

# Look at it when it is well on its way.
until grep -q 'step  60' "$run/output" || ! kill -0 "$training" 2>/dev/null; do sleep 0.2; done
cat "$run/output"
seen=$(wc -l <"$run/output")
show pos_cli --status
echo
if ! wait "$training"; then
	tail -n "+$((seen + 1))" "$run/output"
	die "the training failed; the end of phosd's log: $(tail -n 20 "$run/phosd.log")"
fi
training=
tail -n "+$((seen + 1))" "$run/output"
grep -q '^ok convnet' "$run/output" || die "the result is not right"
show pos_cli --stop
stop
say ok "an unmodified framework trained on a GPU that this machine does not have, and its losses agree with the CPU's"
