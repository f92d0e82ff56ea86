// Package order holds the ordering policies, one in each file.
//
//	fifo, priority       by arrival, by priority
//	sjf, srtf, srsf      shortest first, by the owner's estimate
//	las, las2d, dlas     least service first, for jobs of unknown length
//	gittins              most likely to end soon, for a known distribution of lengths
//	themis, drf, quota   fairness of finish times, of dominant shares, of quotas
//
// Aging bounds the waiting time under any of them that ranks jobs and not groups. ByName returns an
// order by its name on the command line.
//
// What a job's priority and its user's weight mean:
//
//	priority      the highest priority is first; weights mean nothing
//	drf           a user's dominant share is divided by its weight; among the jobs of one user the
//	              highest priority is first
//	quota         users have quotas in place of weights; among the jobs of one user the highest
//	              priority is first
//	all others    neither means anything
//
// pos_cli sim refuses what an order ignores; pos_cli sim policies lists all orders.
//
// The policies keep no state. What they need to know of a job or a user is in the View, so a
// cluster can be copied and simulated ahead. None reads a job's true length. If a policy's paper
// has more than an order (Themis's auction, Tiresias's placement), its comment says what is left
// out.
//
// Read fifo.go, las.go and dlas.go first; docs/policy.md writes a new one, step by step.
package order
