// Package docs runs the commands of README.md and of the documents below docs/, as they stand
// there.
//
// Each document gets a scratch copy of this machine: a mount namespace whose root is an overlay, a
// pid namespace, a user account alice with a copy of docs/examples, and a program ssh that stays on
// the machine. The commands of a document run in order in one shell, which stops at the first that
// fails. place_test.go has the rules by which the test stands in for the person at the keyboard:
// there is always a training with the pid 4711, and a restored training ends early.
//
// Comments in a document, on the line before a block, that no reader sees:
//
//	<!-- as: alice -->       the block runs in alice's home directory, and with her rights
//	<!-- file: pos.yaml -->  the block is a file, and is parsed as phos would
//	<!-- not run: REASON --> the test prints the reason
//	<!-- tested by: DIRECTORY TEST --> that test does what the block says, on several hosts
//
// Read blocks_test.go, then docs_test.go.
package docs
