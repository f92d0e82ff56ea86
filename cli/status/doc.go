// Package status formats phosd's answer for pos_cli --status: as an object for scripts (view.go)
// and as tables for people (table.go). Texts that come from programs are made printable. Read View
// first.
package status
