// Package replan makes the next plan when nodes have died, have joined or are to leave.
//
// Sizes are settled first (shape.go): a pipeline that lost nodes goes on with a smaller template,
// else borrows from the largest, else is merged with others like it, and where all that leaves too
// few pipelines, nodes are taken from those that have some to spare for another one. As long as
// there are enough nodes for faults+1 pipelines, there are faults+1. Then each node gets the stages
// for which least has to be copied (assign.go), and each layer that a node lacks is copied in
// stripes from all that have it (transfer.go).
//
// The answer depends on the plan and on the sets of nodes alone. Who fails while a recovery is
// under way is therefore answered by asking again with the plan from before and all that has
// happened since: both failures at once give the same.
//
// Read change.go first.
package replan
