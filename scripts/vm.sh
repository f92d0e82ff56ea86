#!/usr/bin/env bash
# Makes a virtual machine with systemd, and runs what only a whole machine can show in it: units,
# sessions, reboots, power cuts, a second machine. No part of ./build.sh test: an emulated machine
# takes minutes to do what takes seconds here.
set -euo pipefail
CALLED_FROM=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh
. scripts/go.sh
. scripts/cuda.sh
. scripts/criu.sh
. scripts/verbs.sh

usage() {
	cat <<-EOF
		usage: scripts/vm.sh [make | test [GO-TEST-FLAG...]]

		  make    a disk with this machine's Debian, once; what is there is taken away first
		  test    makes one where there is none, builds, and runs tests/machine, for instance: test -run Reboot

		As root, on Debian. It is kept in \$PHOS_VM ($VM); \$PHOS_VM_ACCEL is qemu's accelerator (kvm:tcg).
	EOF
}

VM=${PHOS_VM:-$CACHE/vm}
export PHOS_VM=$VM

# criu_libraries: the packages of what CRIU is linked with.
criu_libraries() {
	local library
	ldd "$CRIU" | awk '$3 ~ /^\// { print $3 }' | while read -r library; do
		dpkg-query -S "$library" "/usr$library" 2>/dev/null || true
	done | cut -d: -f1 | sort -u | paste -sd,
}

fill_root() {
	local root=$1 packages
	packages=systemd-sysv,dbus,libpam-systemd,openssh-server,python3,linux-image-cloud-amd64,initramfs-tools,$(criu_libraries)
	debootstrap --variant=minbase --include="$packages" "$(os VERSION_CODENAME)" "$root" "$(archive_mirror)"
	echo phos >"$root/etc/hostname"
	echo '/dev/vda / ext4 defaults 0 1' >"$root/etc/fstab"
	printf '[Match]\nName=en*\n[Network]\nDHCP=yes\n' >"$root/etc/systemd/network/all.network"
	ln -sfn /run/systemd/resolve/resolv.conf "$root/etc/resolv.conf"
	systemctl --root="$root" enable systemd-networkd 2>/dev/null || chroot "$root" systemctl enable systemd-networkd
	# The machine is used at once: these would only delay its start.
	rm -f "$root"/etc/systemd/system/timers.target.wants/* "$root"/etc/systemd/system/multi-user.target.wants/e2scrub_reap.service
	chroot "$root" useradd --create-home --shell /bin/bash ordinary
	install -d -m 700 "$root/root/.ssh"
	install -m 600 "$VM/key.pub" "$root/root/.ssh/authorized_keys"
	install -d -m 700 -o 1000 -g 1000 "$root/home/ordinary/.ssh"
	install -m 600 -o 1000 -g 1000 "$VM/key.pub" "$root/home/ordinary/.ssh/authorized_keys"
}

make_disk() {
	rm -rf "$VM"
	mkdir -p "$VM"
	ssh-keygen -q -t ed25519 -N '' -f "$VM/key"
	local tree=$VM/tree
	fill_root "$tree"
	cp "$tree"/boot/vmlinuz-* "$VM/kernel"
	cp "$tree"/boot/initrd.img-* "$VM/initrd"
	rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
	truncate -s 6G "$VM/disk.new"
	mke2fs -q -F -t ext4 -d "$tree" "$VM/disk.new"
	rm -rf "$tree"
	mv "$VM/disk.new" "$VM/disk"
}

need_machine() {
	phosd_needs_root
	need_criu
	[ -n "$CRIU" ] || die "what is shown in a machine needs CRIU: $CRIU_MISSING"
	[ "${1:-}" != fresh ] || rm -f "$VM/disk"
	[ ! -e "$VM/disk" ] || return 0
	archive_mirror >/dev/null || die "a machine is made of the Debian archive that this one is set up with"
	need debootstrap qemu-system-x86 qemu-utils e2fsprogs openssh-client
	step "make the disk $VM/disk" make_disk
}

# installation: phos as ./build.sh install puts it on a machine.
installation() {
	rm -rf "$VM/installed"
	DESTDIR=$VM/installed install_tree /usr/local
	install -D -m 755 "$CRIU" "$VM/installed/usr/local/lib/phos/criu/criu"
}

run_tests() {
	./build.sh build
	need_cuda
	need_machine
	step "install into $VM/installed" installation
	REQUIRE=${REQUIRE:+$REQUIRE,}vm exec go test -count=1 -timeout 2h -v ./tests/machine "$@"
}

case ${1:-test} in
make) need_machine fresh ;;
test) run_tests "${@:2}" ;;
*)
	usage
	exit 2
	;;
esac
