// Package harness lets a test run real programs under its own phosd. It finds what build.sh built,
// starts a daemon in a temporary directory, and runs programs as a user would. At the end of the
// test it checks that nothing is left.
//
// It also decides about skips. If the machine lacks what a test needs, the test is skipped with the
// reason. If the environment variable REQUIRE names the need (REQUIRE=criu,root), the test fails
// instead.
package harness
