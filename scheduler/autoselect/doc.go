// Package autoselect is a policy that picks policies. At intervals it simulates the present jobs to
// their ends under each of some candidates, on a copy of the engine's state, and switches to the
// candidate with the lowest mean completion time.
//
// The idea is the "automatic synthesizer" of S. Agarwal et al., "Blox: A Modular Toolkit for Deep
// Learning Schedulers", EuroSys 2024, §5.4. Future arrivals are unknown to it, and it relies on the
// jobs' estimates.
//
// A Chooser is an order and an admission policy in one. Read candidate.go, then chooser.go, then
// ahead.go.
package autoselect
