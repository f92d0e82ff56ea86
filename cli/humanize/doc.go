// Package humanize formats sizes, ages, durations and texts for people, in tables and messages of
// pos_cli. JSON for scripts has bytes, microseconds and RFC 3339 instead.
package humanize
