// Package statedir is phosd's state directory, which outlives a boot: the key that seals images,
// imported keys of other machines, private work directories of checkpoints and restores, and copies
// of libraries that restored programs have mapped.
//
//	/var/lib/phos/key/seal           the key of this machine, which seals its images
//	/var/lib/phos/keys/NAME.key      keys of other machines, imported under names
//	/var/lib/phos/work/phosd-*/      of one phosd, which holds a lock on it: work of checkpoints and
//	                                 restores; the next phosd removes it
//	/var/lib/phos/lib/HASH/          libphos.so of saved programs, by its BLAKE3
//	/var/lib/phos/records/programs/  programs that are restored after a restart of the machine
//	/var/lib/phos/records/images/    since when images have had no program
//
// Only root can read it, but for the libraries. Read dir.go first.
//
// # Locking
//
// Dir.librariesMu and Dir.mu are never held together.
package statedir
