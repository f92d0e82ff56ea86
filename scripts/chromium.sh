# shellcheck shell=bash
# Chromium, in which tests/page and tests/cluster look at the page of controllers: the one that
# CHROMIUM names, or the package of the distribution. Ubuntu has only a snap, which is of no use
# here.

# need_chromium sets CHROMIUM; where there is none, it is empty, and the tests that need it skip.
need_chromium() {
	export CHROMIUM=${CHROMIUM:-}
	[ -n "$CHROMIUM" ] && return
	CHROMIUM=$(command -v chromium) && return
	if [ "$(os ID)" != debian ] || ! (need chromium fonts-dejavu-core); then
		say skip "no chromium: the page of controllers is not looked at"
		return
	fi
	CHROMIUM=$(command -v chromium) || CHROMIUM=''
}
