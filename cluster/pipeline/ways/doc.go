// Package ways chooses how training goes on after nodes have died, have joined or are to leave. A
// Way is one manner to go on; what is chosen has the most iterations until the next change, with
// the time that is lost before it begins.
//
// Two ways are known: package replan's Recover, which sends the fewest bytes, and its Balance,
// which shortens the iteration as far as the nodes allow. Others, such as moving a process to
// another machine, need only an entry in All.
//
// The choice depends only on the plan, the change and the costs, so every node makes the same one.
//
// Read ways.go.
package ways
