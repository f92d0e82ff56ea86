// Package tryout is the example of docs/scheduling.md: an ordering policy, written step by step.
//
// The page contains these files, and a test compares them. Nothing else uses the package.
//
// Read docs/scheduling.md, then tryout.go.
package tryout
