// Package statedir is phosd's state directory, which outlives a boot: the key that seals images,
// imported keys of other machines, private work directories of checkpoints and restores, and copies
// of libraries that restored programs have mapped.
//
// Only root can read it, but for the libraries. Read dir.go first.
package statedir
