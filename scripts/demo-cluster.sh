#!/usr/bin/env bash
# Makes a cluster of three hosts and launches trainings on it. Then one host loses its power, one is
# drained, and the controller is replaced. The hosts are namespaces of this machine (tests/hosts).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/demo-common.sh"

stop() {
	trap - EXIT
	exec {orders}>&- 2>/dev/null || true
	wait "${console:-}" 2>/dev/null || true
	rm -rf "$run"
}

# start_hosts builds what makes hosts, and boots three.
start_hosts() {
	step "build the console of the hosts" go build -o "$run/console" ./tests/hosts/console
	mkfifo "$run/orders" "$run/answers"
	"$run/console" 3 "$run" <"$run/orders" 3>"$run/answers" &
	console=$!
	exec {orders}>"$run/orders" {answers}<"$run/answers"
	answer || die "no hosts can be made here"
}

# answer waits until the last order has been followed, and returns its exit status.
answer() {
	local status
	read -r status <&"$answers" || status=1
	return "$status"
}

order() {
	echo "$*" >&"$orders"
	answer
}

# on HOST COMMAND: runs a command on a host as root.
on() { order run "$1" "$2"; }

# typed HOST COMMAND: what root types there.
typed() {
	printf '%s # %s\n' "$1" "$2"
	on "$1" "$2" || die "it failed"
}

# ada COMMAND: what a user types on the first host, in a directory with a training.
ada() {
	printf 'node1 $ %s\n' "$1"
	on node1 "cd /var/lib/ada/line && runuser -u ada -- $1" || die "it failed"
}

# asked COMMAND: prints the output of a command on the first host.
asked() {
	on node1 "{ $1; } >$run/said" || die "$1 failed"
	cat "$run/said"
}

# await COMMAND: waits until a command succeeds on the first host.
await() { on node1 "until { $1; } >/dev/null 2>&1; do sleep 0.1; done"; }

# replicas: the replicas of the launch, one a line: node, attempt, phase.
replicas() {
	asked "phos show line --json" | python3 -c '
import json, sys
for each in json.load(sys.stdin)["replicas"]:
    print(each.get("node", "-"), each.get("attempt", 0), each["phase"])'
}

# await_trainings HOST: both replicas run, none of them on that host.
await_trainings() {
	local now
	until now=$(replicas) && [ "$(grep -c ' running$' <<<"$now")" = 2 ] && ! grep -q "^$1 " <<<"$now"; do sleep 0.2; done
}

# elsewhere: a host of the launch which is not the first.
elsewhere() { replicas | awk '$1 != "node1" { print $1; exit }'; }

# prepare HOST: phos is installed there, and users have their accounts.
prepare() {
	on "$1" "mount --bind '$ROOT/bin' /usr/local/bin && mkdir -p /etc/phos" || die "install phos on $1"
	on "$1" "id -u ada >$run/said 2>&1 || useradd --system --create-home --home-dir /var/lib/ada ada" || die "add a user on $1"
}

say wait "three hosts boot: namespaces of this machine, with addresses of their own"
start_hosts
for host in node1 node2 node3; do prepare "$host"; done
on node1 "mkdir /var/lib/ada/line && cp '$ROOT'/docs/examples/{train.py,line.toml} /var/lib/ada/line"

tell "One machine is a cluster. Times are short here: what a dead host ran is started elsewhere after 10 s, not 65"
typed node1 "printf '[nodes]\nlease = \"1s\"\nfence_after = \"5s\"\n' >/etc/phos/controller.toml"
typed node1 "pos_cli --start --target cluster --gpus soft:1 | tee $run/started"
token=$(grep -o 'phosjoin_[^ ]*' "$run/started")

tell "Two others join it"
for host in node2 node3; do typed "$host" "pos_cli --start --target agent --gpus soft:1 --join $token"; done
await "test \$(phos node list --json | grep -c '\"state\": *\"ready\"') = 3"
typed node1 "phos node list"

tell "A user launches two replicas of a training, from the directory with its code"
ada "cat line.toml"
ada "phos launch line.toml"
await_trainings none
await "phos logs line | grep step"
ada "phos ps"

lost=$(elsewhere)
tell "$lost loses its power"
order kill "$lost"
await_trainings "$lost"
ada "phos show line"
ada "phos events line"

tell "It comes back, as it was"
order boot "$lost"
prepare "$lost"
typed "$lost" "pos_cli --start --target agent --gpus soft:1"

drained=$(elsewhere)
tell "Before maintenance of $drained, what runs there goes elsewhere"
typed node1 "phos node drain $drained"
await_trainings "$drained"
ada "phos show line"
typed node1 "phos node list"

tell "The controller is upgraded: stopped, replaced, and started again. Here its build is the same"
before=$(replicas)
lines=$(asked "phos logs line | wc -l")
typed node1 "pos_cli --stop --target cluster"
typed node1 "pos_cli --start --target cluster"
await "test \$(phos logs line | wc -l) -gt $lines"
[ "$(replicas)" = "$before" ] || die "the launch has noticed: $(replicas)"

tell "The trainings have not noticed. They are stopped"
ada "phos stop line"
await "phos show line --json | grep '\"ended\"'"
ada "phos ps -a"
stop
say ok "three hosts: one died, one was drained, the controller was replaced; the launch went on"
