// Package clock has the times that the leader of a cluster needs: one for leases, one for the
// scheduler, and one for people.
//
// Leases are measured by the boot time of this machine (internal/linux/boottime), which runs on
// while the machine sleeps. Read clock.go.
package clock
