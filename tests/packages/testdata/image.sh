#!/usr/bin/env bash
# image.sh SCRATCH DIST COMMANDS INSTEAD PROGRAM: runs the commands of docs/packages.md about the
# image in DIST, one a line, by a dockerd of its own and in the namespaces that the caller has made:
# one loads the image, one starts phosd, one runs a program. Then again with other options INSTEAD
# of --privileged. What the document calls PROGRAM is the program.
set -euo pipefail
scratch=$1 dist=$2 commands=$3 instead=$4 program=$5
mount --make-rprivate /
mount -t tmpfs tmpfs "$scratch"
mount -t tmpfs tmpfs /run
mkdir -p /run/lock
export DOCKER_HOST=unix:///run/docker.sock
ip link set lo up 2>/dev/null || true

# Some machines for tests lack this capability, and no container can have it there: a runc that
# leaves it out.
runc=()
if ! (((0x$(awk '/^CapBnd/ { print $2 }' /proc/self/status) >> 24) & 1)); then
	cat >"$scratch/runc" <<-'END'
		#!/bin/bash
		files=()
		for ((i = 1; i < $#; i++)); do
			j=$((i + 1))
			case ${!i} in --bundle) files+=("${!j}/config.json") ;; --process) files+=("${!j}") ;; esac
		done
		[ ${#files[@]} = 0 ] || sed -i 's/"CAP_SYS_RESOURCE",//g; s/,"CAP_SYS_RESOURCE"//g' "${files[@]}"
		exec runc "$@"
	END
	chmod 755 "$scratch/runc"
	runc=(--add-runtime "less=$scratch/runc" --default-runtime less)
fi
dockerd "${runc[@]}" --host "$DOCKER_HOST" --data-root "$scratch/data" --exec-root /run/docker --pidfile /run/docker.pid \
	--storage-driver vfs --bridge none --iptables=false --cgroup-parent phos-packages >/run/dockerd.log 2>&1 &

fail() {
	echo "FAILED: $*"
	docker logs phosd 2>&1 | tail -n 20 || true
	tail -n 20 /run/dockerd.log
	exit 1
}

# The cgroups are the machine's.
# shellcheck disable=SC2329 # the trap calls it
leave() {
	docker rm -f phosd >/dev/null 2>&1 || true
	rmdir /sys/fs/cgroup/{,*/}phos-packages 2>/dev/null || true
}
trap leave EXIT

for ((i = 0; i < 600; i++)); do
	! docker version >/dev/null 2>&1 || break
	sleep 0.1
done
cd "$scratch"
ln -s "$dist" dist
mapfile -t command <"$commands"
[ ${#command[@]} = 3 ] || fail "${#command[@]} commands about the image, want 3"
printf '#!/bin/sh\ncd /tmp && exec program 100 1000 1000\n' >PROGRAM
cp "$program" program
chmod 755 PROGRAM program

bash -euc "${command[0]}" || fail "${command[0]}"
[ "$(docker inspect --format '{{.Config.StopSignal}}' phosd:latest)" = SIGTERM ] || fail "no STOPSIGNAL"
[ -n "$(docker inspect --format '{{index .Config.Labels "org.opencontainers.image.version"}}' phosd:latest)" ] || fail "no version"

# compute START: a program computes under the phosd that the command starts. It checks each step on
# the CPU, and ends with 7 if all are right.
compute() {
	local i status=0
	bash -euc "$1" || fail "$1"
	for ((i = 0; i < 300; i++)); do
		! docker exec phosd pos_cli --status >/dev/null 2>&1 || break
		sleep 0.1
	done
	docker cp PROGRAM phosd:/usr/local/bin/PROGRAM
	docker cp program phosd:/usr/local/bin/program
	bash -euc "${command[2]}" || status=$?
	[ $status = 7 ] || fail "$1: the program ended with $status"
	docker stop -t 60 phosd
	status=$(docker inspect --format '{{.State.ExitCode}}' phosd)
	[ "$status" = 0 ] || fail "$1: phosd ended with $status"
	docker rm phosd
}
compute "${command[1]}"
[[ ${command[1]} == *--privileged* ]] || fail "not privileged: ${command[1]}"
compute "${command[1]/--privileged/"$instead"}"
