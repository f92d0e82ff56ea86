// Package tracker holds a program's userfaultfd, by which phosd sees what the program writes
// (package writetrack). It is in the worker, because workers outlive phosd; and what the worker
// itself writes into the program's memory has to be marked.
package tracker
