// Package elastic decides how many GPUs each job gets, and of which type.
//
//	optimus  marginal gain per GPU on fitted speed curves (Peng et al., EuroSys 2018)
//	pollux   goodput, on a matrix of jobs and nodes (Qiao et al., OSDI 2021)
//	gavel    max-min fairness over GPU types (Narayanan et al., OSDI 2020)
//
// All three need to know how fast a job would be on other GPUs than it asked for; package
// throughput models that by the job's model.
//
// Gavel knows users' weights and takes a job's priority as a factor of its weight; the others
// ignore both.
//
// The policies allocate whole GPUs: a job that shares its GPU counts as one that does not. Their
// answers are plain data, which the engine checks. Gavel and Pollux keep state between calls; one
// value serves one engine.
//
// The package places no jobs except where the policy itself decides on nodes, and it learns no
// curves while jobs run. Read optimus.go first: it is the shortest.
package elastic
