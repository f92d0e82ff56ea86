// Package record is the form in which a cluster's objects are kept in the store: launches, nodes,
// and the cluster itself.
//
// Each value is JSON with a version in front. A controller reads a record, changes it and writes it
// back, and would drop what it does not know. So a newer version is refused, and an unknown field,
// too: each new field needs a new version. An older version is read. Images are only read, so they
// may have new fields (FORMAT.md, section 8). The keys are in key.go.
//
// Records that decide about rights, some of them files, have the same rule in package
// identity/versioned.
//
// The package decides nothing and knows no store. Read launch.go.
package record
