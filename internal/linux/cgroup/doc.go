// Package cgroup finds cgroups of version 2, moves processes between them, and names those that
// phosd's processes make, so that what a killed one has left is told from what somebody looks
// after.
//
// It limits nothing and freezes nothing. Read find.go first.
package cgroup
