// Package backfill lets jobs overtake others that wait for GPUs, as far as nobody is made late who
// was promised a time.
//
//	none          nobody overtakes anybody
//	easy          the first job that has to wait is promised a time (Lifka, The ANL/IBM SP Scheduling System, JSSPP 1995)
//	conservative  every job is (Mu'alem and Feitelson, Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling
//	              the IBM SP2 with Backfilling, IEEE TPDS 12(6), 2001); "conservative:100", the first hundred of them
//
// All of it is one algorithm with another number of promises. What is promised depends on how long
// the running and the promised jobs are expected to take: where these estimates are right, nobody
// starts later than promised, and with conservative nobody starts later than if those behind him
// did not exist. A job that runs longer than estimated is expected to go on for as long again as it
// has.
//
// GPUs are counted, by type and memory; whether a placement likes those that will be free, nobody
// knows beforehand. Where sets of GPUs that jobs can run on overlap, or GPUs are shared, the count
// is on the safe side: a job may then start before its time, and what was promised to those behind
// it is worked out anew; that of the first one in the queue is kept all the same.
//
// In a walk in the order of arrival, only those promises are made that somebody sees: none behind
// the last job that could start now as far as is promised yet. What is put off is made when it
// matters, and is the same then (scheduler.Engine.Foresees says when that is sure).
//
// Read backfill.go first, then profile.go, timeline.go and known.go.
package backfill
