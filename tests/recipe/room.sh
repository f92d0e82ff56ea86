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
ip link set lo up 2>/dev/null || python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))'
echo ready
exec sleep infinity
