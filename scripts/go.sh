# shellcheck shell=bash
# A Go that can build phos. Any Go since 1.21 will do, because it fetches the exact version that
# go.mod names.

go_version() { go env GOVERSION 2>/dev/null | sed 's/^go//; s/[a-z].*//'; }

# at_least HAVE WANT compares dotted versions.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# Distributions put versioned Go beside the default one, where PATH does not look.
newest_installed_go() {
	local dir
	for dir in $(printf '%s\n' /usr/local/go/bin /usr/lib/go-1.*/bin | sort -rV); do
		if [ -x "$dir/go" ]; then PATH=$dir:$PATH; return; fi
	done
}

# The source of packages that install_go adds where the distribution's own Go is too old.
BACKPORTS=/etc/apt/sources.list.d/phos-backports.list

go_needs_backports() { [ "$(os ID)" = debian ] && [ "$(os VERSION_ID)" = 12 ]; }

# forget_backports removes the source again. Go stays.
forget_backports() {
	[ -e "$BACKPORTS" ] || return 0
	as_root rm -f "$BACKPORTS"
	say ok "removed $BACKPORTS; the Go from there stays"
}

install_go() {
	if go_needs_backports; then
		archive_source deb bookworm-backports main | as_root tee "$BACKPORTS"
		as_root apt-get update
		apt_install -t bookworm-backports golang-go
	else
		apt_install golang-go
	fi
}

# toolchain: the Go that go.mod asks for by name.
toolchain() { awk '$1 == "toolchain" { sub(/^go/, "", $2); print $2 }' "$ROOT/go.mod"; }

toolchain_here() { compgen -G "$(cd / && go env GOMODCACHE)/golang.org/toolchain@v0.0.1-go$(toolchain).*/bin/go" >/dev/null; }

need_go() {
	local wanted
	# A fetched toolchain does not carry over to the version question: ask the installed one.
	export GOFLAGS=${GOFLAGS:--buildvcs=false}
	wanted=$(awk '$1 == "go" { print $2 }' "$ROOT/go.mod")
	have_go() { at_least "$(cd / && GOTOOLCHAIN=local go_version)" 1.21; }
	have_go || newest_installed_go
	if ! have_go; then
		need ca-certificates
		! go_needs_backports || say adds "$BACKPORTS, because this Debian's own Go is too old; uninstall removes it"
		step "install Go from the distribution" install_go
		hash -r
		have_go || newest_installed_go
		have_go || die "the distribution's Go is older than 1.21; install a newer one and put it on PATH"
	fi
	if ! at_least "$(cd / && GOTOOLCHAIN=local go_version)" "$wanted"; then
		export GOTOOLCHAIN=auto
		need ca-certificates
		toolchain_here || step "fetch Go $(toolchain) for go.mod" go version
	fi
}
