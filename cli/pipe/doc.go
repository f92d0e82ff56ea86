// Package pipe is for images that go through standard input and output, from one pos_cli to
// another. It only looks at how a stream begins: what is in it is phosd's to read and to judge.
// Read In.
package pipe
