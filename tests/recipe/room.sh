# shellcheck shell=bash
# Makes the machine of a recipe from this one, in namespaces of its own: what recipes install and
# write is gone when the first process, which only waits, ends.
# room.sh INSTALLATION DISK: phos as installed, for /usr/local; an empty directory on a disk.
set -eu
mount --make-rprivate /
# fresh DIRECTORY [SOURCE]: a memory file system there, with a copy of SOURCE.
fresh() {
	mount -n -t tmpfs -o mode=755 room /mnt
	[ $# = 1 ] || cp -a "$2/." /mnt
	mount -n --move /mnt "$1"
}
fresh /etc /etc
fresh /usr/local "$1"
mount -n --bind "$2" /var/lib
fresh /run
for each in /srv /var/log /var/spool; do fresh $each; done
mkdir -m 1777 /run/lock
# Name services find nothing on machines that have only loopback addresses.
ip link set lo up
ip address add 10.77.0.1/32 dev lo
echo ready
exec sleep infinity
