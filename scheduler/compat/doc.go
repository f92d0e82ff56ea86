// Package compat reproduces the results of other simulators job by job: Blox's (EuroSys 2024) and
// Tiresias's (NSDI 2019). It serves to check published numbers, and to tell whether a difference
// between two policies is due to the policies or to the simulators.
//
// Each is a small loop of its own that reproduces the original's quirks, which are named where they
// occur. The Engine uses none of it. The originals' results on two traces are in testdata.
//
// Read profile.go, then blox.go and tiresias.go.
package compat
