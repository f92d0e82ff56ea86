// Package versioned reads and writes records in JSON that carry the version of their format.
//
// These records decide about rights. A field that this program does not know may restrict them, so
// nothing unknown is skipped: an unknown field is an error, and so is a newer version. A record of
// a new form gets a new version. Update all controllers before one of them writes it.
//
// Read record.go.
package versioned
