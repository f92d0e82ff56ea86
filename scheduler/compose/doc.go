// Package compose makes the policies of a scheduler from their names, as the simulator and the
// controller of a cluster are told them.
//
// Read names.go.
package compose
