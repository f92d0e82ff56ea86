// Package answer picks the lines of a log that a question is about, on the node that has the log,
// or on a controller that keeps its end.
//
// Read picker.go.
package answer
