// Package launch is what a launch is: its description, the check of it, and, as a pure function of
// events, its course.
//
// A launch has jobs, a job has replicas, and a replica has processes that run together on one node.
// All of it starts at once or not at all. A description comes from a file, from a command line, or
// over the network; Read and Check are the only ways in, so that each is refused in the same words.
//
// A process also gets variables, which environment.go lists.
//
// The package starts nothing and knows no clock, no store and no node. Read spec.go first.
package launch
