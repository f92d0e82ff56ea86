# shellcheck shell=bash
# shellcheck disable=SC2030,SC2031 # stage changes BIN and CRIU in a subshell, for install_tree alone
# "./build.sh package": a .deb, and an OCI image, of what has been built.

DIST=$ROOT/dist

# package_version is ordered by the time of the commit. PACKAGE_VERSION replaces it.
package_version() {
	local stamp
	if [ -n "${PACKAGE_VERSION:-}" ]; then
		echo "$PACKAGE_VERSION"
		return
	fi
	stamp=$(TZ=UTC git -C "$ROOT" log -1 --date=format-local:%Y%m%d%H%M%S --format='%cd.%h' 2>/dev/null || echo 0)
	[ -z "$(git -C "$ROOT" status --porcelain -uno 2>/dev/null)" ] || stamp=$stamp.dirty
	echo "0.1.0+git$stamp"
}

# package_epoch is the time that all files get: that of the commit.
package_epoch() { echo "${SOURCE_DATE_EPOCH:-$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || echo 0)}"; }

# library_dependencies FILE...: the packages with the shared libraries, as for Depends.
library_dependencies() {
	local scratch
	scratch=$(mktemp -d)
	mkdir "$scratch/debian"
	printf 'Source: phos\n' >"$scratch/debian/control"
	(cd "$scratch" && dpkg-shlibdeps -O "${@/#/-e}" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
	rm -rf "$scratch"
}

# fill FILE NAME=VALUE...: the file with @NAME@ replaced.
fill() {
	local text assignment
	text=$(cat "$1")
	for assignment in "${@:2}"; do text=${text//"@${assignment%%=*}@"/"${assignment#*=}"}; done
	printf '%s\n' "$text"
}

# stage TREE: everything that the package installs, as ./build.sh install has it for /usr.
stage() {
	local tree=$1 stripped=$1.bin binary
	rm -rf "$tree" "$stripped"
	mkdir -p "$stripped"
	for binary in pos_cli phosd phos-controller phos-agent libphos.so; do
		strip --strip-unneeded -R .comment -o "$stripped/$binary" "$BIN/$binary"
	done
	(
		export BIN=$stripped CRIU='' DESTDIR=$tree
		install_tree /usr
	)
	rm -rf "$stripped"
	stage_library "$tree"
	# The folder of Debian's zsh.
	mv "$tree/usr/share/zsh/site-functions" "$tree/usr/share/zsh/vendor-completions"
	stage_texts "$tree"
}

# stage_library TREE: the package has libphos.so once; its postinst links it under the name of its
# content.
stage_library() {
	local lib=$1/usr/lib/phos
	LIBRARY=$(readlink "$lib/current")
	install -d "$lib/library"
	mv "$lib/$LIBRARY/libphos.so" "$lib/library/libphos.so"
	chmod 644 "$lib/library/libphos.so"
	rm -rf "${lib:?}/$LIBRARY" "$lib/current"
}

# stage_texts TREE: configuration, log rotation, and what Debian wants of each package.
stage_texts() {
	local tree=$1 doc=$1/usr/share/doc/phos
	install -d "$tree/etc/phos" "$tree/etc/logrotate.d" "$doc" "$tree/usr/share/lintian/overrides"
	# All keys with their defaults, commented out: a later version may change a default.
	"$BIN/phosd" --config=/dev/null --print-config | sed 's/^\([a-z_]* = \)/#\1/' >"$tree/etc/phos/phosd.toml"
	install -m 644 "$ROOT/deploy/debian/logrotate" "$tree/etc/logrotate.d/phos"
	install -m 644 "$ROOT/deploy/debian/lintian-overrides" "$tree/usr/share/lintian/overrides/phos"
	install -m 644 "$ROOT/README.md" "$ROOT/docs/operating.md" "$doc/"
	stage_doc phos "$tree"
	gzip -9n "$tree"/usr/share/man/man*/*
}

# stage_doc PACKAGE TREE: copyright and changelog.
stage_doc() {
	local doc=$2/usr/share/doc/$1
	install -d "$doc"
	if [ "$1" = phos ]; then
		printf 'Files: *\nCopyright: 2026 the phos developers\nLicense: Apache-2.0\n' |
			cat "$ROOT/deploy/debian/copyright" - <(sed 1d "$ROOT/deploy/debian/license") >"$doc/copyright"
	else
		install -m 644 "$ROOT/deploy/debian/copyright-criu" "$doc/copyright"
	fi
	printf '%s (%s) unstable; urgency=medium\n\n  * Built from %s.\n\n -- phos developers <phos-gpu@users.noreply.github.com>  %s\n' \
		"$1" "$VERSION" "$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || echo 'no repository')" \
		"$(LC_ALL=C TZ=UTC date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
}

# make_deb NAME TREE CONTROL DEPENDS: TREE as a package in $DIST.
make_deb() {
	local name=$1 tree=$2 arch
	arch=$(dpkg --print-architecture)
	install -d "$tree/DEBIAN"
	(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree.md5sums"
	mv "$tree.md5sums" "$tree/DEBIAN/md5sums"
	fill "$3" "VERSION=$VERSION" "ARCH=$arch" "DEPENDS=$4" "CRIU=$(criu_table | tail -n 1 | cut -d' ' -f2)" \
		"SIZE=$(du -ks --apparent-size --exclude=DEBIAN "$tree" | cut -f1)" >"$tree/DEBIAN/control"
	find "$tree" -type d -exec chmod 755 {} +
	chmod 644 "$tree/DEBIAN/md5sums" "$tree/DEBIAN/control"
	find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz -z"${PACKAGE_EFFORT:-6}" --build "$tree" "$DIST/${name}_${VERSION}_$arch.deb"
	rm -rf "$tree"
}

package_phos() {
	local tree=$CACHE/package/phos script LIBRARY
	stage "$tree"
	install -d "$tree/DEBIAN"
	for script in postinst prerm postrm; do
		fill "$ROOT/deploy/debian/$script" "LIBRARY=$LIBRARY" "CRIU_TABLE=$(criu_table)" >"$tree/DEBIAN/$script"
		chmod 755 "$tree/DEBIAN/$script"
	done
	(cd "$tree" && find etc -type f -printf '/%p\n' | LC_ALL=C sort) >"$tree/DEBIAN/conffiles"
	chmod 644 "$tree/DEBIAN/conffiles"
	make_deb phos "$tree" "$ROOT/deploy/debian/control" \
		"$(library_dependencies "$tree/usr/bin/phosd" "$tree/usr/lib/phos/library/libphos.so")"
}

# package_criu: the CRIU that was built here because the distribution's is too old.
package_criu() {
	local tree=$CACHE/package/phos-criu
	rm -rf "$tree"
	install -d "$tree/usr/lib/phos/criu"
	strip --strip-unneeded -o "$tree/usr/lib/phos/criu/criu" "$CRIU"
	stage_doc phos-criu "$tree"
	make_deb phos-criu "$tree" "$ROOT/deploy/debian/control-criu" "$(library_dependencies "$tree/usr/lib/phos/criu/criu")"
}

# package_debs makes the packages. Nothing else may be in $DIST afterwards.
package_debs() {
	local VERSION SOURCE_DATE_EPOCH
	VERSION=$(package_version)
	SOURCE_DATE_EPOCH=$(package_epoch)
	export SOURCE_DATE_EPOCH
	umask 022
	rm -rf "$CACHE/package"
	mkdir -p "$DIST" "$CACHE/package"
	rm -f "$DIST"/*.deb
	package_phos
	if [ "${CRIU:-}" = "${CRIU_PREFIX:-}/sbin/criu" ]; then package_criu; fi
}

verb_package() {
	verb_build
	need_criu
	need dpkg-dev binutils xz-utils
	step "package into $DIST" package_debs
	if [ "$(id -u)" = 0 ] && need_root "$(os VERSION_CODENAME)"; then
		step "write $DIST/phosd-oci.tar" package_image
	else
		say skip "the image needs root, and an archive of Debian or Ubuntu among apt's sources"
	fi
	ls -lh "$DIST"
}

# need_packages provides what tests/packages needs: the packages, the image, dockerd, and bare roots
# of this machine's distribution and of Debian 13. With PACKAGE=full also the roots of other
# distributions, and lintian.
need_packages() {
	local suite suites own
	[ "$(id -u)" = 0 ] || return 0
	need dpkg-dev binutils xz-utils
	own=$(os VERSION_CODENAME) DIST=$CACHE/packages
	PACKAGE_EFFORT=0 step "package into $DIST" package_debs
	export PACKAGE_DIST=$DIST
	suites="$own trixie"
	if [ "${PACKAGE:-}" = full ]; then
		suites="$own bookworm trixie jammy noble"
		need lintian
	fi
	for suite in $suites; do provide_root "$suite"; done
	provide_image "$own"
}

# provide_root SUITE tells the tests of a root, and of a repository with what the packages need
# there; or why there is none.
provide_root() {
	local made=PACKAGE_ROOT_${1^^} debs=PACKAGE_DEBS_${1^^}
	if ! need_root "$1"; then
		export "${made}_MISSING=apt's sources have no archive with $1 (PHOS_UBUNTU_MIRROR names one of Ubuntu)"
		say skip "no archive with $1 is known"
		return
	fi
	export "$made=$(root_dir "$1")"
	if need_debs "$1" "$DIST"/*.deb; then
		export "$debs=$(debs_dir "$1" "$DIST"/*.deb)"
	else
		export "${debs}_MISSING=$1 does not have what phos-criu depends on"
	fi
}

# provide_image SUITE tells the tests of the image, if there is a root for it.
provide_image() {
	if [ ! -d "$(root_dir "$1")" ]; then
		export PACKAGE_IMAGE_MISSING="the image is made of an archive of Debian or Ubuntu, and apt knows none"
		return
	fi
	command -v dockerd >/dev/null || need_stopped docker.io
	step "write $DIST/phosd-oci.tar" package_image "$(debs_dir "$1" "$DIST"/*.deb)"
	export PACKAGE_IMAGE=$DIST/phosd-oci.tar
}
