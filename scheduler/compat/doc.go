// Package compat answers as other simulators do, job by job: Blox's (EuroSys 2024) and that of
// Tiresias (NSDI 2019). It is for checking published numbers, and for telling whether a difference
// between two policies is one of the policies or of the simulators.
//
// Each is a small loop of its own that keeps the original's habits, the odd ones too; each habit is
// named where it stands. Nothing of it is used by the Engine, which has better ones. What the
// originals answered on two traces lies in testdata.
//
// Read profile.go, then blox.go and tiresias.go.
package compat
