// Package browser drives a headless Chromium for tests of the page that controllers serve. It
// speaks the DevTools protocol over two pipes, so the browser may run on a host of tests/hosts,
// with that host's network, and no port is open.
//
// The program is Debian's chromium (scripts/chromium.sh); CHROMIUM names it. A test without it is
// skipped, unless REQUIRE names chromium.
//
// Read browser.go, then tab.go. Tested by tests/page.
package browser
