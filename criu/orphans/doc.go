// Package orphans kills what a watchdog left behind when it was killed: CRIU and CRIU's helpers.
// What a killed restorer left is in a cgroup of its own; see package restorer.
package orphans
