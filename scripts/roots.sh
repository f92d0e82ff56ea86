# shellcheck shell=bash
# Bare roots of distributions, for images and for tests of packages. They are kept in the cache.

# root_dir SUITE: where the root is kept. The number changes with what make_root puts there.
root_dir() { printf '%s' "$CACHE/root-$1-2"; }

# make_root SUITE MIRROR: systemd is there, as on every machine, but it does not run.
make_root() {
	local dir
	dir=$(root_dir "$1")
	rm -rf "$dir.new"
	debootstrap --variant=minbase --include=systemd,procps "$1" "$dir.new" "$2"
	# apt reaches the mirror in the same way as here.
	cp /etc/resolv.conf "$dir.new/etc/"
	rm -rf "$dir.new"/var/cache/apt/archives/*.deb
	mv "$dir.new" "$dir"
}

# root_mirror SUITE: the archive that has the suite. PHOS_UBUNTU_MIRROR names one of Ubuntu on a
# Debian machine; it fails where none is known.
root_mirror() {
	case $1 in
	jammy | noble)
		if [ -n "${PHOS_UBUNTU_MIRROR:-}" ]; then echo "$PHOS_UBUNTU_MIRROR"; elif [ "$(os ID)" = ubuntu ]; then archive_mirror; else return 1; fi
		;;
	*) [ "$(os ID)" = debian ] && archive_mirror ;;
	esac
}

# need_root SUITE provides the root; it fails if no archive has the suite.
need_root() {
	local mirror
	[ ! -d "$(root_dir "$1")" ] || return 0
	mirror=$(root_mirror "$1") || return 1
	need debootstrap
	case $1 in jammy | noble) need ubuntu-keyring ;; esac
	step "make a root of $1" make_root "$1" "$mirror"
}
