// Package ranked keeps jobs in the order of their ranks, in trees that can be searched for the
// first job that may start on what is free, and for how many GPUs the jobs behind a rank hold. It
// knows of a job only what these searches need, and the caller's own value for it.
//
// Read tree.go first.
package ranked
