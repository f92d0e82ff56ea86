# shellcheck shell=bash
# What needs namespaces: several hosts on one machine, and the recipes of docs/containers.md and
# docs/slurm.md, with Docker, Podman and Slurm of the distribution, and an image with Python.

# need_stopped PACKAGE...: installs packages with daemons, which are not started. Tests start their
# own.
need_stopped() {
	local policy=/usr/sbin/policy-rc.d ours=''
	if [ ! -e $policy ]; then
		ours=1
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod 755 $policy
	fi
	need "$@"
	[ -z "$ours" ] || rm -f $policy
}

# rooms_work: namespaces can be made here, and there are cgroups. In most containers one is missing.
rooms_work() {
	grep -q ' cgroup2\? ' /proc/self/mounts &&
		unshare --mount --pid --net --uts --ipc --fork --mount-proc mount -n -t tmpfs room /mnt 2>/dev/null
}

# need_hosts sets HOSTS if several hosts can be made of this machine (tests/hosts).
need_hosts() {
	need_stopped openssh-server openssh-client # programs move between hosts by ssh
	local cgroups
	export HOSTS=''
	cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
	if ! rooms_work || [ ! -w "$cgroups" ] || [ ! -e /dev/net/tun ]; then
		say skip "several hosts need root, namespaces, cgroups of version 2 and tap devices, which this machine or container does not allow"
		return
	fi
	need iproute2 procps
	HOSTS=1
}

CONTAINER_ROOT_MADE=$CACHE/container-root

# make_container_root: the root of an image with Python, as debootstrap makes it.
make_container_root() {
	rm -rf "$CONTAINER_ROOT_MADE" "$CONTAINER_ROOT_MADE.new"
	debootstrap --variant=minbase --include=python3 "$(os VERSION_CODENAME)" "$CONTAINER_ROOT_MADE.new" "$(archive_mirror)" || return 1
	rm -rf "$CONTAINER_ROOT_MADE.new"/var/cache/apt/archives/*.deb "$CONTAINER_ROOT_MADE.new"/var/lib/apt/lists/*
	mv "$CONTAINER_ROOT_MADE.new" "$CONTAINER_ROOT_MADE"
}

# need_recipes sets CONTAINER_ROOT; CONTAINER_ROOT_MISSING says why there is none. Call need_criu
# first.
need_recipes() {
	export CONTAINER_ROOT='' CONTAINER_ROOT_MISSING=''
	if [ -z "${CRIU:-}" ]; then
		CONTAINER_ROOT_MISSING="recipes save and restore programs: $CRIU_MISSING"
	elif ! rooms_work; then
		CONTAINER_ROOT_MISSING="recipes need namespaces and cgroups, which this machine or container does not allow"
	elif ! archive_mirror >/dev/null; then
		CONTAINER_ROOT_MISSING="the image is made of an archive of Debian or Ubuntu, and apt knows none"
	fi
	if [ -n "$CONTAINER_ROOT_MISSING" ]; then
		say skip "$CONTAINER_ROOT_MISSING"
		return
	fi
	need debootstrap iproute2 procps python3
	need_stopped docker.io podman uidmap slurmctld slurmd slurm-client munge
	[ -d "$CONTAINER_ROOT_MADE" ] || step "make the root of an image with Python" make_container_root
	CONTAINER_ROOT=$CONTAINER_ROOT_MADE
	say ok "Docker, Podman and Slurm, and the root of an image ($CONTAINER_ROOT)"
}
