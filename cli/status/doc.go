// Package status is what pos_cli --status shows: phosd's answer as an object for scripts (view.go)
// and as tables for people (table.go). It asks nobody and decides nothing; what programs say of
// themselves is made harmless for the reader's terminal. Read View.
package status
