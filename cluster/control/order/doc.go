// Package order says what an agent gets of a launch: all that it needs to run one replica. It
// converts, and decides nothing.
//
// Tested by tests/cluster. Read order.go.
package order
