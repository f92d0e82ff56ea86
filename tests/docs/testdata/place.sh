# place.sh DIR TREE CACHE CRIU_DIR: makes DIR the root of this mount namespace, a copy of the
# machine on which everything may be changed. It prints "ready" and waits.
set -e
root=$1
shift
mount --make-rprivate /
mount -t tmpfs -o mode=755 none "$root"
mkdir "$root/new" "$root/layers"

# copy DIR: an overlay over it, at the same place below the new root.
copies=0
copy() {
	copies=$((copies + 1))
	local layer=$root/layers/$copies
	mkdir -p "$layer/upper" "$layer/work"
	mkdir -p "$root/new$1"
	mount -t overlay none -o "lowerdir=$1,upperdir=$layer/upper,workdir=$layer/work" "$root/new$1"
}

copy /
# What is on another file system than / is not in its copy.
for dir in "$@" "${GOCACHE:-$HOME/.cache}" "$(go env GOROOT 2>/dev/null)" "$(go env GOMODCACHE 2>/dev/null)" /usr /var /home; do
	[ -n "$dir" ] && [ -d "$dir" ] || continue
	at=$(findmnt -n -o TARGET -T "$dir")
	[ "$at" = / ] || mountpoint -q "$root/new$at" || copy "$at"
done
new=$root/new
mount -t proc proc "$new/proc"
mount --rbind /sys "$new/sys"
mount --rbind /dev "$new/dev"
mount -t tmpfs -o mode=755 none "$new/run"
mount -t tmpfs -o mode=1777 none "$new/tmp"
for dir in "$@"; do case $dir in /run/* | /tmp/*) copy "$dir" ;; esac; done
mkdir -p "$new/data" "$new/srv" "$new/home/alice" "$new/old" "$new/run/lock"
rm -rf "$new/etc/phos" "$new/var/lib/phos" "$new/var/log/phosd.log" "$new/etc/profile.d/phos.sh" "$new/usr/local/lib/phos"
rm -f "$new/usr/local/bin/pos_cli" "$new/usr/local/bin/phosd"

grep -q '^alice:' "$new/etc/passwd" || {
	echo "alice:x:61240:61240::/home/alice:/bin/bash" >>"$new/etc/passwd"
	echo "alice:x:61240:" >>"$new/etc/group"
}
cp "$1"/docs/examples/* "$new/home/alice"
chown -R alice "$new/home/alice" 2>/dev/null || chown -R 61240 "$new/home/alice"
# The other machine is this one, so a restore there waits until the pid is free.
cat >"$new/usr/local/bin/ssh" <<-'END'
	#!/bin/sh
	shift
	input=$(mktemp)
	cat >"$input"
	case "$*" in *--restore*) while [ -e /proc/4711 ]; do sleep 0.05; done ;; esac
	exec "$@" <"$input"
END
chmod 755 "$new/usr/local/bin/ssh"

cd "$new"
pivot_root . old
umount -l /old
echo ready
# This shell is the first process there, and reaps orphans while it waits.
sleep infinity &
wait
