# shellcheck shell=bash
# One function a verb of build.sh.

BIN=$ROOT/bin

# head_commit: the commit of a clone where git is not installed. It is empty for a bare source tree.
head_commit() {
	local head
	read -r head 2>/dev/null <"$ROOT/.git/HEAD" || return 0
	case $head in
	ref:*) read -r head 2>/dev/null <"$ROOT/.git/${head#ref: }" || return 0 ;;
	esac
	echo "${head:0:8}"
}

# build_go builds pos_cli and phosd. LINK_FLAGS are more flags for the linker.
build_go() {
	local version
	version=$(git -C "$ROOT" describe --always --dirty 2>/dev/null || head_commit)
	local flags=(-trimpath -ldflags "${LINK_FLAGS:+$LINK_FLAGS }-X github.com/phos-gpu/phos/daemon/api.Version=0.1.0${version:++$version}" -o "$BIN/")
	CGO_ENABLED=0 go build "${flags[@]}" ./cli/pos_cli ./cli/phos-controller ./cli/phos-agent
	# phosd opens the GPU driver, which takes cgo; names of users and hosts it still finds without
	# libc.
	CGO_ENABLED=1 go build -tags netgo,osusergo "${flags[@]}" ./cli/phosd
}

# phosd_needs_root ends a verb that cannot end well before it begins.
phosd_needs_root() { [ "$(id -u)" = 0 ] || die "phosd runs as root: run this as root"; }

# build_wheel builds the Python package. It needs Python alone, and no network.
build_wheel() {
	rm -f "$DIST"/phos-*.whl
	python3 "$ROOT/python/backend/wheel.py" "$DIST"
}

verb_build() {
	need gcc libc6-dev make
	command -v python3 >/dev/null || need python3
	need_go
	mkdir -p "$BIN"
	step "build phosd, pos_cli, phos-controller and phos-agent" build_go
	step "build libphos.so" build_shim
	step "build the Python package" build_wheel
	ln -sfn pos_cli "$BIN/phos"
}

verb_demo() {
	case "$*" in
	'' | ranks | cluster) ;;
	*) die "there are three demos: ./build.sh demo, ./build.sh demo ranks, and ./build.sh demo cluster" ;;
	esac
	phosd_needs_root
	verb_build
	need python3
	case "$*" in
	'')
		need_tinygrad
		need_criu
		;;
	ranks) need_criu ;;
	cluster)
		need_hosts
		[ -n "$HOSTS" ] || return 0
		;;
	esac
	exec "$ROOT/scripts/demo${1:+-$1}.sh"
}

# install_tree PREFIX: into there, or below $DESTDIR for others to put there. A shim once installed
# is never overwritten, because a checkpointed program must find exactly the one it ran with.
install_tree() {
	local prefix=${DESTDIR:-}$1 id
	id=$(sha256sum "$BIN/libphos.so" | cut -c 1-16)
	install -d "$prefix/bin" "$prefix/lib/phos/$id"
	install -m 755 "$BIN/pos_cli" "$BIN/phosd" "$BIN/phos-controller" "$BIN/phos-agent" "$prefix/bin/"
	ln -sfn pos_cli "$prefix/bin/phos"
	if [ ! -e "$prefix/lib/phos/$id/libphos.so" ]; then
		install -m 755 "$BIN/libphos.so" "$prefix/lib/phos/$id/.libphos.so.new"
		mv "$prefix/lib/phos/$id/.libphos.so.new" "$prefix/lib/phos/$id/libphos.so"
		ln -sfn libphos.so "$prefix/lib/phos/$id/libcuda.so.1"
		ln -sfn libphos.so "$prefix/lib/phos/$id/libcuda.so"
		ln -sfn libphos.so "$prefix/lib/phos/$id/libnvidia-ml.so.1"
	fi
	ln -sfn "$id" "$prefix/lib/phos/current"
	if [ -n "${CRIU:-}" ] && [ "$CRIU" = "${CRIU_PREFIX:-}/sbin/criu" ]; then
		install -d "$prefix/lib/phos/criu"
		install -m 755 "$CRIU" "$prefix/lib/phos/criu/criu"
	fi
	install_texts "$prefix"
	install_units "$prefix" "$1"
}

# install_texts PREFIX: the manual pages, and completion for the shells.
install_texts() {
	local share=$1/share cli=$1/bin/pos_cli
	local page
	install -d "$share/man/man"{1,5,8} "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
	"$cli" man >"$share/man/man1/pos_cli.1"
	echo ".so man1/pos_cli.1" >"$share/man/man1/phos.1"
	for page in phosd.8 phosd.toml.5 pos.yaml.5; do "$cli" man "$page" >"$share/man/man${page##*.}/$page"; done
	manual_page "$1/bin/phos-controller" 'controller of a cluster' >"$share/man/man8/phos-controller.8"
	manual_page "$1/bin/phos-agent" 'makes this machine a node of a cluster' >"$share/man/man8/phos-agent.8"
	"$cli" completion bash >"$share/bash-completion/completions/pos_cli"
	"$cli" completion zsh >"$share/zsh/site-functions/_pos_cli"
	"$cli" completion fish >"$share/fish/vendor_completions.d/pos_cli.fish"
}

# manual_page PROGRAM WHAT: a manual page for administrators, of what the program says of itself.
manual_page() {
	local name
	name=$(basename "$1")
	printf '.TH %s 8 "" "" "phos"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n' "${name^^}" "$name" "$2"
	"$1" --help 2>&1 | sed 's/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/'
	printf '.fi\n.SH SEE ALSO\n.BR pos_cli (1),\n.BR phosd (8)\n'
}

# install_units WHERE PREFIX: for systemd, which looks in /usr/local and in /usr. They do nothing
# until they are enabled.
install_units() {
	local units=$1/lib/systemd/system unit
	install -d "$units/session-.scope.d"
	for unit in phosd phos-controller phos-agent; do
		sed "s|@PREFIX@|$2|" "$ROOT/scripts/systemd/$unit.service" >"$units/$unit.service"
	done
	install -m 644 "$ROOT/scripts/systemd/session.conf" "$units/session-.scope.d/phos.conf"
	[ -n "${DESTDIR:-}" ] || [ ! -d /run/systemd/system ] || [ "$(id -u)" != 0 ] || systemctl daemon-reload
}

# install_profile PREFIX: puts $phos into login shells.
install_profile() {
	as_root install -d /etc/profile.d
	"$1/bin/pos_cli" --env | as_root tee /etc/profile.d/phos.sh >/dev/null
}

verb_install() {
	# Without the symbols for debuggers, a third of the bytes. Stack traces do not need them.
	local prefix LINK_FLAGS='-s -w'
	prefix=$(cd "$CALLED_FROM" && realpath -m "${1:-/usr/local}")
	verb_build
	need_criu
	step "install into ${DESTDIR:-}$prefix" install_tree "$prefix"
	[ -z "${DESTDIR:-}" ] || return 0
	if [ "$(id -u)" = 0 ]; then
		step "set \$phos in /etc/profile.d/phos.sh" install_profile "$prefix"
	else
		say skip "the login profile is root's: eval \"\$($prefix/bin/pos_cli --env)\" sets \$phos"
	fi
}

# uninstall_tree PREFIX: takes away what install_tree puts there, all versions of libphos.so, and
# what $phos in the login profile names.
# Directories that others may use stay.
uninstall_tree() {
	local prefix=${DESTDIR:-}$1
	rm -rf "$prefix/lib/phos"
	rm -f "$prefix/bin/phos" "$prefix/lib/systemd/system/phos-controller.service" \
		"$prefix/lib/systemd/system/phos-agent.service"
	rm -f "$prefix/bin/phos-controller" "$prefix/bin/phos-agent" "$prefix/share/man/man1/phos.1" \
		"$prefix/share/man/man8/phos-controller.8" "$prefix/share/man/man8/phos-agent.8"
	rm -f "$prefix/bin/pos_cli" "$prefix/bin/phosd" "$prefix/share/man/man1/pos_cli.1" \
		"$prefix/share/man/man5/phosd.toml.5" "$prefix/share/man/man5/pos.yaml.5" "$prefix/share/man/man8/phosd.8" \
		"$prefix/share/bash-completion/completions/pos_cli" "$prefix/share/zsh/site-functions/_pos_cli" \
		"$prefix/share/fish/vendor_completions.d/pos_cli.fish" "$prefix/lib/systemd/system/phosd.service" \
		"$prefix/lib/systemd/system/session-.scope.d/phos.conf"
	[ ! -d "$prefix/lib/systemd/system/session-.scope.d" ] ||
		rmdir --ignore-fail-on-non-empty "$prefix/lib/systemd/system/session-.scope.d"
	if [ -z "${DESTDIR:-}" ] && grep -qs "$1/" /etc/profile.d/phos.sh; then
		as_root rm -f /etc/profile.d/phos.sh
	fi
}

# stop_installed PREFIX: stops the installation's phosd, which refuses while programs run, and
# disables its unit.
stop_installed() {
	local said status=0
	[ -x "$1/bin/pos_cli" ] && [ -x "$1/bin/phosd" ] || return 0
	said=$(PHOS_SOCKET=${PHOS_SOCKET:-$("$1/bin/phosd" --print-config | sed -n "s/^socket = '\(.*\)'/\1/p")} \
		as_root "$1/bin/pos_cli" --stop 2>&1) || status=$?
	case $status in
	0 | 3) ;; # 3: no phosd answers
	*) die "$said; end the programs, or save them (pos_cli --stop --drain --dir DIR), and uninstall again" ;;
	esac
	if [ -d /run/systemd/system ] && [ -e "$1/lib/systemd/system/phosd.service" ]; then
		as_root systemctl disable --quiet --now phosd.service || true
	fi
}

# tell_what_stays says which files of phos an uninstallation does not touch.
tell_what_stays() {
	local each
	for each in /etc/phos /var/lib/phos /var/log/phosd.log; do
		[ ! -e "$each" ] || say stays "$each"
	done
	say stays "images of programs; /var/lib/phos has the key that seals them"
}

verb_uninstall() {
	local prefix
	prefix=$(cd "$CALLED_FROM" && realpath -m "${1:-/usr/local}")
	[ -n "${DESTDIR:-}" ] || stop_installed "$prefix"
	step "uninstall from ${DESTDIR:-}$prefix" uninstall_tree "$prefix"
	[ -z "${DESTDIR:-}" ] || return 0
	forget_backports
	tell_what_stays
}

verb_generate() {
	need gcc libc6-dev make protobuf-compiler
	need_go
	step "generate" go generate ./...
}

verb_lint() {
	need gcc libc6-dev make shellcheck clang-format
	need_go
	exec "$ROOT/scripts/lint.sh"
}

verb_bench() {
	case " $* " in
	*' -h '* | *' --help '*) exec "$ROOT/scripts/bench.sh" --help ;;
	esac
	phosd_needs_root
	verb_build
	need_cuda
	need_criu
	exec "$ROOT/scripts/bench.sh" "$@"
}

# need_for_tests builds, and provides what tests need.
need_for_tests() {
	need gcc libc6-dev make g++
	verb_build
	need_tinygrad
	need_cuda
	need_frameworks
	need_pycuda
	need_nccl
	need_nvml
	need_clusterfudge
	need_training
	need_criu
	need_promtool
	need_chromium
	need_hosts
	need_recipes
	need_packages
}

verb_test() {
	need_for_tests
	exec "$ROOT/scripts/test.sh" "$@"
}

verb_cover() {
	case " $* " in
	*' -h '* | *' --help '*) exec "$ROOT/scripts/cover.sh" --help ;;
	esac
	phosd_needs_root
	need_for_tests
	CALLED_FROM=$CALLED_FROM exec "$ROOT/scripts/cover.sh" "$@"
}

verb_clean() {
	rm -rf "$BIN" "$DIST" "$CACHE" "$ROOT/phos-gpu-bundle.sh"
}
