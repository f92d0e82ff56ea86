// Package recent shares answers of the store among many callers: when a leader dies, all agents ask
// at once.
//
// An Answer has one lock, which is held while the store is asked. Read answer.go.
package recent
