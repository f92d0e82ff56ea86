#!/usr/bin/env bash
# Trains a small network with an unmodified framework on the software GPU, saves it while it runs,
# kills it, restores it, and compares what it learned with a training without interruption.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

run=$(mktemp -d /run/phos-demo-XXXXXX)
export PHOS_SOCKET=$run/phosd.sock PATH=$ROOT/bin:$PATH
trainings=()

stop() {
	trap - EXIT
	for pid in "${trainings[@]}"; do kill -9 -- "-$pid" 2>/dev/null || true; done
	pos_cli --stop --force >/dev/null 2>&1 || true
	umount "$run/sessions" "$run/cgroup" 2>/dev/null || true
	rm -rf "$run"
}
trap stop EXIT
# A signal ends the script by way of EXIT.
trap 'exit 1' INT TERM HUP

tell() { printf '\n# %s\n' "$*"; }

show() {
	printf '$ %s\n' "${*//"$run"/RUN}"
	"$@"
}

# lost WHAT DIR: the end of a demonstration that does not work.
lost() {
	tail -n 20 "$2/output" "$run/phosd.log" >&2 || true
	die "$1"
}

# train NAME: starts a training with files and a process group of its own, and sets pid.
train() {
	mkdir "$run/$1"
	echo "job_name: $1" >"$run/$1/pos.yaml"
	(
		cd "$run/$1"
		# shellcheck disable=SC2154,SC2086 # phos is set by an eval, and is several words
		exec setsid env $phos DEV=CUDA:PTX CACHEDB="$run/$1/kernels.db" PYTHONDONTWRITEBYTECODE=1 \
			"$TINYGRAD_PYTHON" "$ROOT/tests/workloads/tinygrad/weights.py" weights 200 >output 2>&1 </dev/null
	) &
	pid=$!
	trainings+=("$pid")
}

# steps DIR: how many a training has done.
steps() { grep -c '^step' "$run/$1/output" || true; }

# reach N DIR PID: waits until a training has done N steps.
reach() {
	until [ "$(steps "$2")" -ge "$1" ]; do
		kill -0 "$3" 2>/dev/null || lost "the training ended early" "$run/$2"
		sleep 0.05
	done
}

# last DIR: the last whole line that a training has written.
last() { grep '^step' "$run/$1/output" | tail -n 1; }

tell "phosd holds the GPU: here one in software, because this machine need not have any"
{
	[ -z "$CRIU" ] || printf 'criu = "%s"\n' "$CRIU"
	printf 'state_dir = "%s"\n' "$run/state"
} >"$run/phosd.toml"
show pos_cli --start --target daemon --gpus=soft:1,deterministic --runtime-dir="$run" --config="$run/phosd.toml" --log-file="$run/phosd.log"
eval "$(pos_cli --env)"

# without_criu: what is left of the story where nothing can be saved.
without_criu() {
	tell "Both reach their end, and no bit of what they learned differs"
	wait "$undisturbed" || lost "the training failed" "$run/undisturbed"
	wait "$disturbed" || lost "the other training failed" "$run/disturbed"
	tail -n 2 "$run/undisturbed/output"
	show cmp "$run/undisturbed/weights" "$run/disturbed/weights" || die "the weights differ"
	show pos_cli --stop
	stop
	say skip "saving and bringing back: $CRIU_MISSING"
	exit 0
}

tell "An undisturbed training, for comparison. Beside it the same training, which will be saved and killed"
# shellcheck disable=SC2016 # it is what a user writes
echo '$ env $phos python3 weights.py weights >output &   # two times'
train undisturbed
undisturbed=$pid
train disturbed
disturbed=$pid
say wait "they compile their kernels first"
reach 40 disturbed "$disturbed"
show pos_cli --status

[ -n "$CRIU" ] || without_criu

tell "It is saved while it trains on"
last disturbed
show pos_cli --pre-dump --dir "$run/image" --pid "$disturbed" || lost "the checkpoint failed" "$run/disturbed"
reach $(($(steps disturbed) + 20)) disturbed "$disturbed"
last disturbed

tell "Once more: only what has changed is written"
show pos_cli --pre-dump --dir "$run/image" --pid "$disturbed" || lost "the checkpoint failed" "$run/disturbed"
reach $(($(steps disturbed) + 10)) disturbed "$disturbed"

tell "A power cut, as far as the program can tell"
show kill -9 -- "-$disturbed" # with the helpers that it has started
wait "$disturbed" 2>/dev/null || true
while kill -0 -- "-$disturbed" 2>/dev/null; do sleep 0.05; done
last disturbed

tell "It comes back as it was when it was saved, and trains on to its end"
show pos_cli --restore --dir "$run/image" || lost "the restored training failed" "$run/disturbed"
tail -n 2 "$run/disturbed/output"

tell "Its results do not show it"
wait "$undisturbed" || lost "the undisturbed training failed" "$run/undisturbed"
show cmp "$run/undisturbed/output" "$run/disturbed/output" || die "the logs differ"
show cmp "$run/undisturbed/weights" "$run/disturbed/weights" || die "the weights differ"
sha256sum "$run"/{undisturbed,disturbed}/weights | sed "s|$run/||"

tell "Moving it to another machine comes with the cluster"
if show pos_cli --migrate 2>&1; then die "pos_cli has --migrate now: show it in this demo"; fi

echo
show pos_cli --stop
stop
say ok "saved while it ran, killed, brought back: every line of its log and every bit of its weights are those of the undisturbed training"
