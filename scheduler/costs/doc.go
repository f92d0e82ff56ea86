// Package costs is the table of what it takes to stop jobs and to let them go on, by model, by
// bytes and by where checkpoints are kept.
//
// It begins as somebody's estimates, in a file, and what real checkpoints took replaces them. A
// simulation that reads the same file asks a scheduler to pay what the machines would charge. The
// table takes no checkpoints and knows no file but as a reader and a writer.
//
// Read table.go, then csv.go for the file's form.
package costs
