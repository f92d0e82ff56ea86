// Package order holds the policies that say which job is first: one file each.
//
//	fifo, priority      who came first, who matters more
//	sjf, srtf, srsf     who is done soonest, by the owner's estimate
//	las, las2d, dlas    who has had least, when nobody knows how long anything runs
//	gittins             who is likeliest to be done soonest, when the distribution of lengths is known
//	themis, drf, quota  what is fair: to jobs by when they finish, to users by what they hold, to organisations by what they own
//
// Aging puts a bound on waiting around any of them that ranks jobs and not groups. ByName makes all
// of them from the words of a command line.
//
// A policy here keeps no state: what it needs to know of a job or a user the View tells, so that a
// cluster can be copied and simulated ahead. None looks at a job's true length. Where a policy's
// paper has more than an order (Themis's auction, Tiresias's placement), its comment says what is
// left out.
//
// Read fifo.go, las.go and dlas.go first; docs/policy.md writes a new one, step by step.
package order
