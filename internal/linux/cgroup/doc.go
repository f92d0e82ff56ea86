// Package cgroup finds cgroups of version 2, moves processes between them, and names those that
// phosd's processes create. The name contains the owner, so that cgroups of a killed owner can be
// found.
//
// It limits nothing and freezes nothing. Read find.go first.
package cgroup
