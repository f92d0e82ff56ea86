// Package ranked keeps jobs in the order of their ranks: in trees that can be searched for how many
// GPUs the jobs behind a rank hold, and in queues of several trees that can be searched for the
// first job that may start on what is free. It knows of a job only what these searches need, and
// the caller's own value for it.
//
// Read tree.go first, then queue.go.
package ranked
