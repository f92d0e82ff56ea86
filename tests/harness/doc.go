// Package harness lets a test run real programs under a phosd of its own: it finds what build.sh
// built, starts a daemon in a temporary directory, runs programs as a user would, and at the end
// insists that nothing is left.
//
// It also decides about skips. What a test needs and this machine lacks makes it skip with the
// reason; if the environment variable REQUIRE names it (REQUIRE=criu,root), the test fails instead.
package harness
