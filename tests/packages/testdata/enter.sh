#!/usr/bin/env bash
# enter.sh ROOT SCRATCH DEBS FILE...: runs lifecycle.sh, one of the files, in a copy of the root and
# in the namespaces that the caller has made. There the files are in /srv, packages in /srv/dist,
# and what they need in /srv/debs, if DEBS is not empty. The root is a mount point, not a chroot:
# CRIU works there.
set -euo pipefail
root=$1 scratch=$2 debs=$3
shift 3
ip link set lo up # in a network of its own
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
mkdir -p "$new"/run/lock "$new"/srv/{dist,old}
for file; do
	case $file in *.deb) cp "$file" "$new/srv/dist/" ;; *) cp "$file" "$new/srv/" ;; esac
done
[ -z "$debs" ] || cp -a "$debs" "$new/srv/debs"
cd "$new"
pivot_root . srv/old
cd /
umount -l /srv/old
rmdir /srv/old
exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
	${debs:+APT_CONFIG=/srv/debs/apt.conf} setsid -w bash -eu /srv/lifecycle.sh
