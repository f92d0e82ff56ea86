# shellcheck shell=bash
# What the demonstrations share: a phosd of their own, and how they show what they do.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT" || exit

run=$(mktemp -d /run/phos-demo-XXXXXX)
export PHOS_SOCKET=$run/phosd.sock PATH=$ROOT/bin:$PATH
# The cluster that the user has logged in to is none of the demonstration's.
export XDG_CONFIG_HOME=$run/config
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

# lost WHAT FILE: the end of a demonstration that does not work.
lost() {
	tail -n 20 "$2" "$run/phosd.log" >&2 || true
	die "$1"
}

# start_phosd GPUS: one with files of its own.
start_phosd() {
	{
		[ -z "$CRIU" ] || printf 'criu = "%s"\n' "$CRIU"
		printf 'state_dir = "%s"\n' "$run/lasting"
	} >"$run/phosd.toml"
	show pos_cli --start --gpus="$1" --runtime-dir="$run" --config="$run/phosd.toml" --log-file="$run/phosd.log"
}

# steps FILE: how many a training has done.
steps() {
	local lines
	lines=$(grep -c '^step' "$1" 2>/dev/null) || true
	echo "${lines:-0}"
}

# reach N FILE PID [STATE]: waits until a training has done N steps. STATE is a function that says
# what it does before its first step; a terminal shows that in one line, a log from time to time.
reach() {
	local shown=$SECONDS start=$SECONDS every=20 form='%-7s %s\n'
	if [ -t 1 ]; then every=2 form='\r%-7s %s '; fi
	until [ "$(steps "$2")" -ge "$1" ]; do
		kill -0 "$3" 2>/dev/null || lost "the training ended early" "$2"
		if [ $# = 4 ] && [ $((SECONDS - shown)) -ge $every ]; then
			shown=$SECONDS
			# shellcheck disable=SC2059 # one of two forms
			printf "$form" wait "$((SECONDS - start)) s: $("$4")"
		fi
		sleep 0.05
	done
	if [ -t 1 ] && [ "$shown" != "$start" ]; then echo; fi
}

# last FILE: the last whole line that a training has written.
last() { grep '^step' "$1" | tail -n 1; }

# kill_all PID: a process and the helpers that it has started, at once.
kill_all() {
	show kill -9 -- "-$1"
	wait "$1" 2>/dev/null || true
	while kill -0 -- "-$1" 2>/dev/null; do sleep 0.05; done
}
