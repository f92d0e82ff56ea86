#!/usr/bin/env bash
# Trains a small network with an unmodified framework on the software GPU, saves it while it runs,
# kills it, restores it, and compares what it learned with a training without interruption.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/demo-common.sh"

# DEMO_STEPS makes the trainings shorter, for tests.
all=${DEMO_STEPS:-200}

# train NAME: starts a training with files and a process group of its own, and sets pid.
train() {
	mkdir "$run/$1"
	: >"$run/$1/output"
	echo "job_name: $1" >"$run/$1/pos.yaml"
	(
		cd "$run/$1"
		export DEV=CUDA:PTX CACHEDB="$run/$1/kernels.db" PYTHONDONTWRITEBYTECODE=1
		exec setsid pos_cli run --quiet -- "$TINYGRAD_PYTHON" "$ROOT/tests/workloads/tinygrad/weights.py" weights "$all" >output 2>&1 </dev/null
	) &
	pid=$!
	trainings+=("$pid")
}

# kernels: how far the trainings are that still compile theirs.
kernels() {
	"$TINYGRAD_PYTHON" - "$run"/*/kernels.db <<-'END'
		import sqlite3, sys
		count = 0
		for path in sys.argv[1:]:
		    try:
		        cache = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
		        for table, in cache.execute("select name from sqlite_master where type = 'table' and name like 'compile%'"):
		            count += cache.execute('select count(*) from "%s"' % table).fetchone()[0]
		    except sqlite3.Error:
		        pass
		print(count, "kernels are compiled")
	END
}

tell "phosd holds the GPU: here one in software, because this machine need not have any"
start_phosd soft:1,deterministic

# without_criu: what is left of the story where nothing can be saved.
without_criu() {
	tell "Both reach their end, and no bit of what they learned differs"
	wait "$undisturbed" || lost "the training failed" "$run/undisturbed/output"
	wait "$disturbed" || lost "the other training failed" "$run/disturbed/output"
	tail -n 2 "$run/undisturbed/output"
	show cmp "$run/undisturbed/weights" "$run/disturbed/weights" || die "the weights differ"
	show pos_cli --stop
	stop
	say skip "checkpoint and restore: $CRIU_MISSING"
	exit 0
}

tell "An undisturbed training, for comparison. Beside it the same training, which will be saved and killed"
# shellcheck disable=SC2016 # it is what a user writes
echo '$ pos_cli run -- python3 weights.py weights >output &   # two times'
train undisturbed
undisturbed=$pid
train disturbed
disturbed=$pid
say wait "they compile their kernels first: one or two minutes"
reach $((all / 5)) "$run/disturbed/output" "$disturbed" kernels
show pos_cli --status

[ -n "$CRIU" ] || without_criu

tell "It is saved while it trains on"
last "$run/disturbed/output"
show pos_cli --pre-dump --dir "$run/image" --pid "$disturbed" || lost "the checkpoint failed" "$run/disturbed/output"
reach $(($(steps "$run/disturbed/output") + all / 10)) "$run/disturbed/output" "$disturbed"
last "$run/disturbed/output"

tell "Once more: only what has changed is written"
show pos_cli --pre-dump --dir "$run/image" --pid "$disturbed" || lost "the checkpoint failed" "$run/disturbed/output"
reach $(($(steps "$run/disturbed/output") + all / 20)) "$run/disturbed/output" "$disturbed"

tell "A power cut, as far as the program can tell"
kill_all "$disturbed"
last "$run/disturbed/output"

tell "It comes back as it was when it was saved, and trains on to its end"
show pos_cli --restore --dir "$run/image" || lost "the restored training failed" "$run/disturbed/output"
tail -n 2 "$run/disturbed/output"

tell "Its results do not show it"
wait "$undisturbed" || lost "the undisturbed training failed" "$run/undisturbed/output"
show cmp "$run/undisturbed/output" "$run/disturbed/output" || die "the logs differ"
show cmp "$run/undisturbed/weights" "$run/disturbed/weights" || die "the weights differ"
sha256sum "$run"/{undisturbed,disturbed}/weights | sed "s|$run/||"

echo
show pos_cli --stop
stop
say ok "saved while it ran, killed, restored: every line of its log and every bit of its weights are those of the undisturbed training"
