// Package place chooses GPUs for jobs.
//
//	first-free   the lowest numbers, wherever they lie
//	best-fit     the fewest nodes, and of those the ones where it leaves least
//	skew         models with one large tensor on the fewest nodes or not at all, others on what is left over (Tiresias)
//	topology     the fewest racks, then the fewest nodes
//	bandwidth    inside a node, GPUs whose worst link is best; across nodes as topology
//	fgd          where it wastes least for the jobs that are usual here (fragmentation gradient descent)
//
// A Placer belongs to one engine: some remember what they worked out about a cluster. All are
// deterministic: where nothing else decides, the lower number does. Only skew refuses GPUs that are
// there; the others find a place whenever there is one.
//
// Spread is a model of what a bad place costs, for simulations. What is free, the packages above
// know; read scheduler.Free first, then place.go.
package place
