// Package place holds the placement policies.
//
//	first-free  the lowest numbers, on any nodes
//	best-fit    the fewest nodes, and of those the ones where the fewest GPUs are left over
//	skew        skewed models on the fewest nodes or not at all, others on leftovers (Tiresias)
//	topology    the fewest racks, then the fewest nodes
//	bandwidth   inside a node, GPUs whose slowest link is best; across nodes as topology
//	fgd         the least fragmentation for typical jobs (fragmentation gradient descent)
//
// A Placer belongs to one engine: some cache results about a cluster. All are deterministic: ties
// go to the lower number. Only skew refuses sufficient GPUs; the others find a place whenever there
// is one.
//
// Spread models the cost of a bad place, for simulations. scheduler.Free tracks what is free; read
// it first, then place.go.
package place
