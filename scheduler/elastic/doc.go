// Package elastic decides how many GPUs each job has, and of which type.
//
//	optimus   marginal gain per GPU on fitted speed curves (Peng et al., EuroSys 2018)
//	pollux    goodput, on a matrix of jobs and nodes (Qiao et al., OSDI 2021)
//	gavel     max-min fairness over GPU types (Narayanan et al., OSDI 2020)
//
// All three ask how fast a job would be on other GPUs than it asked for; package throughput answers
// that by the job's model.
//
// The policies give whole GPUs out: a job that shares its GPU counts as one that wants it for
// itself. What they answer is plain data, which the engine checks. Gavel and Pollux remember what
// they did from one call to the next; one value serves one engine.
//
// The package places nothing but what Pollux decides itself, and no curve is learnt while jobs run.
// Read optimus.go first: it is the shortest.
package elastic
