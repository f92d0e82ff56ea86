// Package hostile attacks phosd as its users would: two ordinary users, alice and bob, and a
// container. Each test is one attack, of which nothing may come: no right, no data and no service
// of another user. docs/security.md says what users can do to each other.
//
// Read fixture_test.go first.
package hostile
