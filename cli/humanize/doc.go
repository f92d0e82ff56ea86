// Package humanize says sizes, ages and durations the way pos_cli says them to people, in tables
// and in last lines. What scripts read is never worded: it is bytes, microseconds and RFC 3339.
// Read wording.go.
package humanize
