# shellcheck shell=bash
# promtool, which checks deploy/prometheus: the installed one, or that of the package,
# unpacked beside the system. The package itself is not installed: it would start a server.

fetch_promtool() {
	rm -rf "$CACHE/prometheus"
	mkdir -p "$CACHE/prometheus" && cd "$CACHE/prometheus" || return 1
	apt-get download prometheus || return 1
	dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool || return 1
	rm prometheus_*.deb
}

# need_promtool sets PROMTOOL; where there is none, it is empty, and the tests that need it skip.
need_promtool() {
	export PROMTOOL
	PROMTOOL=$(command -v promtool) && return
	PROMTOOL=$CACHE/prometheus/usr/bin/promtool
	[ -x "$PROMTOOL" ] && return
	if ! command -v apt-get >/dev/null || ! (step "fetch promtool" fetch_promtool); then
		PROMTOOL=''
		say skip "no promtool: the alert rules are not checked"
	fi
}
