// Package autoselect is a policy that picks policies: every so often it plays the jobs that are
// there to their end under each of some candidates, on a copy of the engine's state, and goes on
// with the one under which their mean completion time is least.
//
// The idea is the "automatic synthesizer" of S. Agarwal et al., "Blox: A Modular Toolkit for Deep
// Learning Schedulers", EuroSys 2024, §5.4. It does not know what will arrive, and it trusts the
// jobs' estimates.
//
// A Chooser is an order and an admission in one. Read candidate.go, then chooser.go, then ahead.go.
package autoselect
