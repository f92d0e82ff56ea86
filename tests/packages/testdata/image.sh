#!/usr/bin/env bash
# image.sh SCRATCH IMAGE PROGRAM: loads the image into a dockerd of its own, in the namespaces that
# the caller has made, and runs a program under the phosd of a container.
set -euo pipefail
scratch=$1 image=$2 program=$3
mount --make-rprivate /
mount -t tmpfs tmpfs "$scratch"
mount -t tmpfs tmpfs /run
mkdir -p /run/lock "$scratch/srv"
cp "$program" "$scratch/srv/program"
chmod 755 "$scratch" "$scratch/srv"
export DOCKER_HOST=unix:///run/docker.sock
ip link set lo up 2>/dev/null || true
dockerd --host "$DOCKER_HOST" --data-root "$scratch/data" --exec-root /run/docker --pidfile /run/docker.pid \
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
docker load --quiet --input "$image" || fail "docker load"
[ "$(docker inspect --format '{{.Config.StopSignal}}' phosd:latest)" = SIGTERM ] || fail "no STOPSIGNAL"
[ -n "$(docker inspect --format '{{index .Config.Labels "org.opencontainers.image.version"}}' phosd:latest)" ] || fail "no version"

capabilities=(--cap-add SYS_ADMIN --cap-add SYS_PTRACE)
# Some machines for tests do not have this one to give.
if (((0x$(awk '/^CapBnd/ { print $2 }' /proc/self/status) >> 24) & 1)); then capabilities+=(--cap-add SYS_RESOURCE); fi
docker run --detach --name phosd "${capabilities[@]}" \
	--security-opt seccomp=unconfined --security-opt apparmor=unconfined --network none \
	--volume "$scratch/srv:/srv:ro" phosd:latest --gpus soft:1 || fail "docker run"
for ((i = 0; i < 300; i++)); do
	! docker exec phosd pos_cli --status >/dev/null 2>&1 || break
	sleep 0.1
done
# The program checks each step on the CPU, and ends with 7 if all are right.
status=0
docker exec --workdir /tmp phosd pos_cli run -- /srv/program 100 1000 1000 || status=$?
[ $status = 7 ] || fail "the program ended with $status"
docker stop -t 60 phosd
[ "$(docker inspect --format '{{.State.ExitCode}}' phosd)" = 0 ] || fail "phosd ended with $(docker inspect --format '{{.State.ExitCode}}' phosd)"
