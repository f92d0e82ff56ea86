// Package boottime is the clock that counts the time since the machine has booted, including the
// time in which it was suspended, and an alarm of that clock.
//
// Leases need it. Package time measures by CLOCK_MONOTONIC, which stands still while the machine is
// suspended: a process that was suspended for an hour would believe that a lease of five seconds
// still has four of them. Its timers have the same fault. Nothing sets this clock back or forward.
//
// Times are durations since the boot; those of two machines cannot be compared. It is no clock for
// virtual machines that their host has paused: no clock of such a machine counts that time.
//
// Read clock.go.
package boottime
