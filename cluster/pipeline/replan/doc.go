// Package replan computes the next plan when nodes have died, have joined or are to leave.
//
// Sizes are decided first (shape.go): a pipeline that lost nodes continues with a smaller template,
// or borrows nodes from the largest one, or is merged with other small ones. If too few pipelines
// remain, another one is made of nodes that others can spare. As long as there are enough nodes for
// faults+1 pipelines, there are faults+1.
//
// Then all nodes are assigned to all places at once, so that the fewest bytes are sent that are
// possible with these sizes (assign.go, cheapest.go). What was done for each pipeline follows from
// where its nodes come from and go to (steps.go). Each layer that a node lacks is copied in stripes
// from all nodes that have it (transfer.go).
//
// The result depends only on the plan and on the sets of nodes. A failure during a recovery is
// therefore answered by another call with the previous plan and all changes since: the result is
// the same as for simultaneous failures.
//
// Read change.go first.
package replan
