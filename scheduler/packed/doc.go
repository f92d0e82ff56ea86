// Package packed keeps many jobs in little memory.
//
// A simulation has all jobs of its trace, but looks at most of them only twice: when they arrive
// and when their results are written. Until then a job is a row of some 25 bytes, an eighth of what
// a cluster.Job takes, and without pointers that the garbage collector would follow.
//
// Read jobs.go first. rows.go keeps the rows, and reader.go reads their values.
package packed
