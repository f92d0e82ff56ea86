// Package order says what an agent gets of a launch: all that it needs to run one replica. It
// converts, and decides nothing.
//
// Read order.go.
package order
