// Package writer puts a leader's records into the store: it tries until the store has taken them,
// or another leader writes.
//
// Read writer.go.
package writer
