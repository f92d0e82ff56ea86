// Package replan computes the next plan when nodes have died, have joined or are to leave.
//
// The published steps say what a recovery must be worth (shape.go): a pipeline that lost nodes
// continues with a smaller template, or borrows nodes from the largest one, or is merged with other
// small ones. If too few pipelines remain, another one is made of nodes that others can spare. As
// long as there are enough nodes for faults+1 pipelines, there are faults+1.
//
// A recovery has as many pipelines as these steps make, or more, on as many nodes, and its
// iteration takes no longer. Of all sizes for which that holds, with all assignments of nodes to
// places, it is one that sends the fewest bytes; if the steps' own sizes are one, it has these. So
// the order is: copies of each layer, nodes in use, the promised iteration, bytes, the steps'
// sizes, and at last the first that was found, which depends on nothing but plan and change.
//
// The search over sizes (fewest.go, sizesearch.go) is branch and bound by prices of nodes. It is
// exact as long as its effort suffices, which is for some ten pipelines. Beyond that it goes on by
// exchanges of nodes between two pipelines (neighbour.go). For given sizes all nodes are assigned
// to all places at once (assign.go, cheapest.go). What was done for each pipeline follows from
// where its nodes come from and go to (steps.go). Each layer that a node lacks is copied in stripes
// from all nodes that have it (transfer.go).
//
// Balance (balance.go) is another answer to the same change: the sizes of a new plan.
//
// Where nodes share machines, some then exchange their places, so that each layer is on one machine
// more than the faults, as far as that is possible (package spread). That comes before bytes.
//
// The result depends only on the plan and on the sets of nodes. A failure during a recovery is
// therefore answered by another call with the previous plan and all changes since: the result is
// the same as for simultaneous failures.
//
// Read change.go first.
package replan
