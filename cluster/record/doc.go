// Package record is the form in which a cluster's objects are kept in the store: launches, nodes,
// and the cluster itself.
//
// Each value is JSON with a version in front. A newer version than this program knows is refused,
// so that an old controller does not drop what a newer one has written; an older one is read. The
// keys are in key.go.
//
// The package decides nothing and knows no store. Read launch.go.
package record
