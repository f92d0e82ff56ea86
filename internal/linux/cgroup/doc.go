// Package cgroup finds cgroups of version 2, and hierarchies of version 1 by their controllers. It
// moves processes between cgroups of version 2, and names those that phosd's processes create. The
// name contains the owner, so that cgroups of a killed owner can be found.
//
// It limits nothing and freezes nothing. Read find.go first.
package cgroup
