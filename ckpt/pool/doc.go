// Package pool runs work in several goroutines: Run starts a goroutine for each function, and Each
// shares a list of items among a fixed number. Background workers have a low priority, so that
// programs run undisturbed.
package pool
