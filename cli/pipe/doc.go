// Package pipe sends images through standard output and input, from one pos_cli to another. It
// reads only the manifest at the beginning of a stream; phosd reads and checks the rest. Read In
// first.
package pipe
