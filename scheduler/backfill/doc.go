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
// All of these are one algorithm with a different number of reservations. Reservations depend on
// the estimates of running and reserved jobs. If these are right, no job starts later than
// reserved, and with conservative no job starts later than it would without the jobs behind it. A
// job that exceeds its estimate is expected to run for twice as long as it has.
//
// GPUs are counted by type and memory; whether the Placer will accept the free ones is unknown in
// advance. If sets of GPUs that jobs can run on overlap, or GPUs are shared, the count is
// conservative. A job may then start before its reservation, and the reservations behind it are
// computed again; that of the first job in the queue is kept nonetheless.
//
// In a walk by order of arrival, only reservations with an effect are made: none behind the last
// job that could start now. Deferred ones are made when they matter, with the same result
// (scheduler.Engine.ReservationsExact reports whether that is certain).
//
// Read backfill.go first, then profile.go, timeline.go and bounds.go.
package backfill
