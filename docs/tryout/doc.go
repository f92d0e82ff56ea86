// Package tryout is the example of docs/policy.md: an ordering policy, written step by step.
//
// Nothing else uses it. The page shows these files, and a test compares the page with them.
//
// Read docs/policy.md, then tryout.go.
package tryout
