// Package hostile attacks phosd as its users would: two ordinary users, alice and bob, and a
// container. Each test is one attack. It must give the attacker no right and no data of another
// user, and take no service from others. docs/security.md says what users can do to each other.
//
// Read fixture_test.go first.
package hostile
