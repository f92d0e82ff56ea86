// Command cover says which code of the backend for real GPUs no test has run, from what
// scripts/cover.sh has had counted: blocks of Go, and lines of C. What is not run, and is no
// exception that exceptions.txt gives a reason for, makes it fail: no line of that backend is to be
// run for the first time on somebody's GPU. place.go is what is counted.
package main
