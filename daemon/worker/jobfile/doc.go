// Package jobfile reads pos.yaml, the file in a program's working directory that says what its job
// is called.
//
// The file is a user's and may be wrong or hostile: it is bounded, read with the user's rights (by
// the worker, never by phosd), and an error in it never keeps a program from starting. libphos.so
// reads only daemon_addr, by itself, because it must know the socket before anybody else can read
// anything.
package jobfile
