// Command cover reports which code of the backend for real GPUs no test has run: blocks of Go and
// lines of C, as counted by scripts/cover.sh. Such code fails the command unless exceptions.txt
// gives a reason, because no line of that backend may run for the first time on a user's GPU.
// place.go defines what is counted.
package main
