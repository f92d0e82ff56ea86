# shellcheck shell=bash
# Bare roots of distributions, for images and for tests of packages. They are kept in the cache.

# root_dir SUITE: where the root is kept. The number changes with what make_root puts there.
root_dir() { printf '%s' "$CACHE/root-$1-2"; }

# make_root SUITE MIRROR: systemd is there, as on every machine, but it does not run.
make_root() {
	local dir script=
	dir=$(root_dir "$1")
	rm -rf "$dir.new"
	# A debootstrap that is older than the suite makes it like the one before.
	[ -e "/usr/share/debootstrap/scripts/$1" ] || script=/usr/share/debootstrap/scripts/jammy
	debootstrap --variant=minbase --include=systemd,procps --keyring="$(archive_keys "$1")" "$1" "$dir.new" "$2" ${script:+"$script"}
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

# Ubuntu's package with the keys of its archive, which Debian lacks, and its SHA-256.
ubuntu_keyring='pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb 36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8'

# archive_keys SUITE: the file with the keys of the archive that has the suite.
archive_keys() {
	local name=debian-archive-keyring.gpg
	case $1 in jammy | noble) name=ubuntu-archive-keyring.gpg ;; esac
	if [ -e "/usr/share/keyrings/$name" ]; then echo "/usr/share/keyrings/$name"; else echo "$CACHE/ubuntu-keyring/$name"; fi
}

# fetch_ubuntu_keys MIRROR: the keys of Ubuntu's archive, from there, for archive_keys.
fetch_ubuntu_keys() {
	local dir=$CACHE/ubuntu-keyring path sum
	read -r path sum <<<"$ubuntu_keyring"
	rm -rf "$dir" "$dir.new"
	mkdir "$dir.new"
	/usr/lib/apt/apt-helper download-file "$1/$path" "$dir.new/keys.deb" "SHA256:$sum"
	dpkg-deb --fsys-tarfile "$dir.new/keys.deb" | tar -x -C "$dir.new" --strip-components=4 ./usr/share/keyrings
	mv "$dir.new" "$dir"
}

# need_root SUITE provides the root; it fails if no archive has the suite.
need_root() {
	local mirror
	[ ! -d "$(root_dir "$1")" ] || return 0
	mirror=$(root_mirror "$1") || return 1
	need debootstrap
	[ -e "$(archive_keys "$1")" ] || step "fetch the keys of Ubuntu's archive" fetch_ubuntu_keys "$mirror"
	step "make a root of $1" make_root "$1" "$mirror"
}

# debs_dir SUITE DEB...: where the repository of need_debs is kept. Its name is made of what the
# packages depend on.
debs_dir() { printf '%s' "$CACHE/debs-$1-$(depends "${@:2}" | sha256sum | cut -c 1-12)"; }

# depends DEB...: what the packages depend on.
depends() {
	local deb
	for deb; do dpkg-deb -f "$deb" Depends; done | paste -sd ,
}

# need_debs SUITE DEB...: provides a repository with what the packages depend on and the suite's
# root lacks, so that apt installs them there without a network. In a root it is /srv/debs. It fails
# if the suite does not have all of it.
need_debs() {
	local dir
	dir=$(debs_dir "$@")
	[ -d "$dir" ] || (step "fetch what the packages need in $1" make_debs "$dir" "$@")
}

# make_debs DIR SUITE DEB...
make_debs() {
	local dir=$1 suite=$2 aside=$CACHE/apt-$2 components=main conf
	case $suite in jammy | noble) components='main universe' ;; esac
	rm -rf "$aside" "$dir.new"
	conf=$(apt_aside "$aside" "deb [signed-by=$(archive_keys "$suite")] $(root_mirror "$suite") $suite $components")
	APT_CONFIG=$conf apt-get -o Dir::State::status="$(root_dir "$suite")/var/lib/dpkg/status" \
		satisfy --yes --download-only --no-install-recommends "$(depends "${@:3}")"
	mkdir "$dir.new"
	find "$aside/archives" -name '*.deb' -exec mv -t "$dir.new" {} +
	(cd "$dir.new" && dpkg-scanpackages . >Packages)
	echo 'deb [trusted=yes] file:/srv/debs ./' >"$dir.new/sources.list"
	cat >"$dir.new/apt.conf" <<-'EOF'
		Dir::Etc::sourcelist "/srv/debs/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		APT::Get::Assume-Yes "true";
		APT::Sandbox::User "root";
	EOF
	rm -rf "$aside"
	mv "$dir.new" "$dir"
}
