# shellcheck shell=bash
# A CRIU that passes its own check on this kernel: the installed one, the distribution's, or one
# built from the sources of the distribution's newer release into a prefix of phos's own.

# Distribution, version of its source package, suite, component, and the SHA-256 of the upstream
# archive in it. The first that the mirror still has is taken.
criu_sources="
debian 4.2.1-1 sid main 29ec0ee09e296479fe7048c80980e8ef1d0684d0b0204c2b101dfea19f6725b9
debian 4.1.1-1 trixie main f80a66cb3726bb2116266d4759ce3bcbfab7abdb6b6d430bf20dd41911717afe
ubuntu 4.2-1ubuntu2 resolute universe 3ac6196e19a8117571b81b291547788da7d9f46d2bf8721c81f82cdbc8f59740
"
# What phos adds to CRIU: pages that were copied while the program ran are not written again, and
# users' programs can run before their memory is there. Without it, as with an installed CRIU, the
# processes stand still for all their memory.
criu_patches=("$ROOT"/scripts/criu-*.patch)
# A CRIU that was built from other sources is another one.
CRIU_PREFIX=${CRIU_PREFIX:-$CACHE/criu-$({ echo "$criu_sources" && cat "${criu_patches[@]}"; } | sha256sum | cut -c 1-12)}

criu_passes() { [ -n "$1" ] && [ -x "$1" ] && as_root "$1" check >/dev/null 2>&1 && criu_is_new_enough "$1"; }

# criu_suits PROGRAM: it passes, and has phos's patches where the kernel can make use of them.
criu_suits() { criu_passes "$1" && { ! kernel_tracks || criu_has "$1" track_written uffd_unprivileged; }; }

# criu_has PROGRAM FEATURE...: it has all of these on this kernel.
criu_has() {
	local program=$1 feature
	shift
	for feature; do
		"$program" check --feature "$feature" >/dev/null 2>&1 || return 1
	done
}

# kernel_tracks: the kernel has asynchronous write protection.
kernel_tracks() { at_least "$(uname -r)" 6.7; }

# criu_is_new_enough: CRIU's own check does not find all that phos needs.
criu_is_new_enough() {
	local version
	version=$("$1" --version | awk '/^Version:/ { print $2 }')
	at_least "$version" "$(oldest_criu "$(uname -r)")"
}

# criu_table: what kernels need which CRIU, as "KERNEL CRIU" lines, newest kernel first.
criu_table() { sed -n 's/^\t{"\([0-9.]*\)", "\([0-9.]*\)"}.*/\1 \2/p' "$ROOT/criu/program.go"; }

# oldest_criu KERNEL: the oldest CRIU that phos takes there. criu/program.go has the rule.
oldest_criu() {
	local kernel criu
	while read -r kernel criu; do
		if at_least "$1" "$kernel"; then
			echo "$criu"
			return
		fi
	done < <(criu_table)
	return 1
}

fetch_criu() {
	local conf version suite component sum
	conf=$(apt_aside "$CACHE/apt-criu" "$(criu_archives)") || return 1
	rm -rf "$CACHE/criu-source"
	mkdir -p "$CACHE/criu-source" && cd "$CACHE/criu-source" || return 1
	while read -r version suite component sum; do
		echo "criu $version of $suite"
		APT_CONFIG=$conf apt-get source --tar-only --download-only "criu=$version" || continue
		echo "$sum  criu_${version%-*}.orig.tar.xz" | sha256sum -c || return 1
		tar -x --strip-components=1 -f "criu_${version%-*}.orig.tar.xz"
		return
	done < <(of_distribution <<<"$criu_sources")
	echo "the mirror no longer has one of these versions; write down a newer one in scripts/criu.sh"
	return 1
}

# criu_archives: where the sources are.
criu_archives() {
	local version suite component sum
	while read -r version suite component sum; do
		archive_source deb-src "$suite" "$component" || return 1
	done < <(of_distribution <<<"$criu_sources")
}

build_criu() {
	cd "$CACHE/criu-source" || return 1
	local each
	for each in "${criu_patches[@]}"; do
		if patch --strip=1 --force --dry-run <"$each"; then
			patch --strip=1 --force --no-backup-if-mismatch <"$each"
		else
			echo "$each does not fit this version: it is built without"
		fi
	done
	make -j"$(nproc)" NO_GNUTLS=1 WERROR=0 criu || return 1
	mkdir -p "$CRIU_PREFIX/sbin"
	install -m 755 criu/criu "$CRIU_PREFIX/sbin/criu"
	rm -rf "$CACHE/criu-source"
}

# without_criu WHY: the tests that need one say so and are skipped, or fail where they are required.
without_criu() {
	CRIU_MISSING=$1
	say skip "$1"
}

# A root that is only a directory of a file system is not among the mounts that its processes see,
# and CRIU cannot save their files.
CHROOT="the root directory is not a mount point, as in a chroot, and criu cannot work there: leave the chroot, run 'mount --rbind DIR DIR' for its directory, mount /proc below it if it is missing, enter it again by chroot DIR, and run this again"

# need_criu sets CRIU; where none can be had, CRIU is empty and CRIU_MISSING says what to do.
need_criu() {
	export CRIU='' CRIU_MISSING=''
	local candidate installed
	if [ "$(id -u)" != 0 ]; then
		without_criu "criu needs root"
		return
	fi
	if [ -z "$(awk '$5 == "/"' /proc/self/mountinfo 2>/dev/null)" ]; then
		without_criu "$CHROOT"
		return
	fi
	installed=$(command -v criu || true)
	for candidate in "$CRIU_PREFIX/sbin/criu" "$installed"; do
		if criu_suits "$candidate"; then
			use_criu "$candidate"
			return
		fi
	done
	if ! archive_mirror >/dev/null; then
		if criu_passes "$installed"; then
			use_criu "$installed"
			return
		fi
		without_criu "no criu that passes 'criu check': install one >= $(oldest_criu "$(uname -r)") and run this again (nothing can be built here, as apt knows no archive of Debian or Ubuntu)"
		return
	fi
	if ! kernel_tracks && [[ $(apt-cache policy criu) == *'Candidate: '[1-9]* ]]; then
		need criu
		candidate=$(command -v criu || true)
		if criu_passes "$candidate"; then
			use_criu "$candidate"
			return
		fi
	fi
	# One that does not even start lacks its libraries: the cache came from another machine.
	if ! "$CRIU_PREFIX/sbin/criu" --version >/dev/null 2>&1; then
		if criu_passes "$installed"; then
			if ! (need_built_criu); then
				use_criu "$installed"
				return
			fi
		else
			need_built_criu || return 0
		fi
	fi
	if ! criu_passes "$CRIU_PREFIX/sbin/criu"; then
		without_criu "this machine or container is not one for criu: $("$CRIU_PREFIX/sbin/criu" check 2>&1 | grep Error | tail -n 1)"
		return
	fi
	use_criu "$CRIU_PREFIX/sbin/criu"
}

use_criu() {
	CRIU=$1 CRIU_MISSING=''
	say ok "criu ($CRIU)"
}

need_built_criu() {
	need gcc make patch libc6-dev pkg-config xz-utils dpkg-dev libbsd-dev libcap-dev libnet1-dev libnftables-dev libnl-3-dev \
		libprotobuf-c-dev libprotobuf-dev protobuf-c-compiler protobuf-compiler uuid-dev python3
	if [ "$(os ID)" = ubuntu ]; then
		# Not every mirror of Ubuntu has sources.
		(step "fetch criu's source" fetch_criu) || {
			without_criu "no criu that passes its own check: install one >= $(oldest_criu "$(uname -r)") and run this again (apt-get install software-properties-common && add-apt-repository -y ppa:criu/ppa && apt-get install criu)"
			return 1
		}
	else
		step "fetch criu's source" fetch_criu
	fi
	step "build criu" build_criu
}
