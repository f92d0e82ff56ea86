// Command cover says which code of the backend for real GPUs no test has run: blocks of Go and
// lines of C, as counted by scripts/cover.sh. Code that was not run fails the command unless
// exceptions.txt gives a reason: no line of that backend may run for the first time on a user's
// GPU. place.go is what is counted.
package main
