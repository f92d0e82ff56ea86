// Package statedir keeps what phosd has besides its running programs, and what outlives a boot: the
// key that seals images, keys of other machines that it was given, private directories for the
// files of a checkpoint on its way, and copies of libraries that restored programs still need.
//
// All of it is root's alone. Read dir.go first.
package statedir
