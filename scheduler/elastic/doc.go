// Package elastic decides how many GPUs each job gets, and of which type.
//
//	optimus  marginal gain per GPU on fitted speed curves (Peng et al., EuroSys 2018)
//	pollux   goodput, on a matrix of jobs and nodes (Qiao et al., OSDI 2021)
//	gavel    max-min fairness over GPU types (Narayanan et al., OSDI 2020)
//
// All three need to know how fast a job would be on other GPUs than it asked for; package
// throughput models that by the job's model.
//
// What a job's priority and its user's weight mean: under gavel, jobs that compete are due
// throughput in proportion to their weights, and each 1 of priority doubles a job's weight. Under
// optimus and pollux neither means anything; pos_cli sim refuses what a policy ignores.
//
// The policies allocate whole GPUs: a job that shares its GPU counts as one that does not. Their
// answers are plain data, which the engine checks. Gavel and Pollux keep state between calls; one
// value serves one engine.
//
// The package places no jobs except where the policy itself decides on nodes, and it learns no
// curves while jobs run. Read optimus.go first: it is the shortest.
package elastic
