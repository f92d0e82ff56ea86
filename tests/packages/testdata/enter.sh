#!/usr/bin/env bash
# enter.sh ROOT SCRATCH DIST PROGRAM SCRIPT: runs the script in a copy of the root, in the
# namespaces that the caller has made.
set -euo pipefail
root=$1 scratch=$2 dist=$3 program=$4 script=$5
mount --make-rprivate /
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch"/{upper,work,merged}
new=$scratch/merged
if ! mount -t overlay -o "lowerdir=$root,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$new" 2>/dev/null; then
	cp -a "$root/." "$new"
	mount --bind "$new" "$new"
fi
mount -t proc proc "$new/proc"
mount --rbind /sys "$new/sys"
mount --rbind /dev "$new/dev"
for folder in run tmp srv; do mount -t tmpfs -o mode=755 tmpfs "$new/$folder"; done
chmod 1777 "$new/tmp"
mkdir -p "$new"/run/lock "$new"/srv/dist
cp "$dist"/*.deb "$new/srv/dist/"
cp "$program" "$new/srv/program"
cp "$script" "$new/srv/script"
mkdir "$new/srv/old"
cd "$new"
pivot_root . srv/old
cd /
umount -l /srv/old
rmdir /srv/old
exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
	setsid -w bash -eu /srv/script
