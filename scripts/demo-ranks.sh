#!/usr/bin/env bash
# Trains by two ranks on two software GPUs, saves them as one job, kills both, restores the job, and
# compares what each rank has found with a training without interruption.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/demo-common.sh"

# train NAME: starts a training with files and a process group of its own, and sets pid.
train() {
	mkdir "$run/$1"
	: >"$run/$1/rank0.log"
	(
		cd "$run/$1"
		exec setsid pos_cli run --name "$1" -- python3 "$ROOT/docs/examples/ranks.py" 600 >output 2>&1 </dev/null
	) &
	pid=$!
	trainings+=("$pid")
}

tell "phosd holds two GPUs: here in software, because this machine need not have any"
start_phosd soft:2,deterministic

tell "Two ranks train together, each on its own GPU. The same once more, which will be saved and killed"
# shellcheck disable=SC2016 # it is what a user writes
echo '$ pos_cli run -- python3 ranks.py &   # two times'
train undisturbed
undisturbed=$pid
train disturbed
disturbed=$pid
reach 10 "$run/disturbed/rank0.log" "$disturbed"
show pos_cli ps

# without_criu: what is left of the story where nothing can be saved.
without_criu() {
	tell "Both reach their end, and no bit of what they found differs"
	wait "$undisturbed" || lost "the training failed" "$run/undisturbed/output"
	wait "$disturbed" || lost "the other training failed" "$run/disturbed/output"
	for rank in 0 1; do show cmp "$run/undisturbed/rank$rank.log" "$run/disturbed/rank$rank.log" || die "the logs differ"; done
	show pos_cli --stop
	stop
	say skip "checkpoint and restore: $CRIU_MISSING"
	exit 0
}
[ -n "$CRIU" ] || without_criu

tell "Both ranks and their launcher are saved at the same instant: TREE is the pid to name"
show pos_cli --pre-dump --dir "$run/image" --pid "$disturbed" || lost "the checkpoint failed" "$run/disturbed/output"
reach $(($(steps "$run/disturbed/rank0.log") + 5)) "$run/disturbed/rank0.log" "$disturbed"

tell "A power cut, as far as the ranks can tell"
last "$run/disturbed/rank1.log"
kill_all "$disturbed"

tell "The job comes back as it was when it was saved, and trains on to its end"
show pos_cli --restore --dir "$run/image" || lost "the restored training failed" "$run/disturbed/output"

tell "The results do not show it"
wait "$undisturbed" || lost "the undisturbed training failed" "$run/undisturbed/output"
for rank in 0 1; do
	last "$run/disturbed/rank$rank.log"
	show cmp "$run/undisturbed/rank$rank.log" "$run/disturbed/rank$rank.log" || die "the logs differ"
done

echo
show pos_cli --stop
stop
say ok "two ranks on two GPUs, saved while they ran, killed and restored as one job: every bit is that of the undisturbed training"
