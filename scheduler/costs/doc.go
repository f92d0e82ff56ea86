// Package costs is a table of what it takes to preempt and resume jobs, by model, by bytes and by
// where checkpoints are stored.
//
// It begins with estimates from a file, which measurements of real checkpoints replace. A
// simulation that reads the same file charges the scheduler what the machines would. The table
// takes no checkpoints itself.
//
// Read table.go, then csv.go for the file's format.
package costs
