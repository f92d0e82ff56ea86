// Package backfill lets jobs overtake blocked jobs without delaying any job that has a reservation.
//
//	none          no job overtakes another
//	easy          the first blocked job has a reservation
//	conservative  every job has one; "conservative:100": the first hundred jobs
//
// EASY is from Lifka, The ANL/IBM SP Scheduling System, JSSPP 1995; conservative backfilling from
// Mu'alem and Feitelson, Utilization, Predictability, Workloads, and User Runtime Estimates in
// Scheduling the IBM SP2 with Backfilling, IEEE TPDS 12(6), 2001.
//
// With EASY each walk makes the reservation again, as early as it can then be. Conservative
// backfilling keeps its promises: a job gets its start when it arrives, and starts later only after
// a setback (a run takes longer than its estimate, or a node fails), when all starts are decided
// again. When a run ends early, the reservations are compressed: in the jobs' order, each moves as
// far forward as it can. A job that exceeds its estimate is expected to run for twice as long as it
// has.
//
// GPUs are counted by type and memory; whether the Placer will accept the free ones is unknown in
// advance. If sets of GPUs that jobs can run on overlap, or GPUs are shared, the count is
// conservative: a job may start before its reservation. If jobs can be preempted, promises end with
// each preemption.
//
// Conservative backfilling of a long queue takes time in proportion to the queue's length at each
// early end; "conservative:100" bounds that.
//
// Read backfill.go first, then easy.go, conservative.go, book.go, profile.go and timeline.go.
package backfill
