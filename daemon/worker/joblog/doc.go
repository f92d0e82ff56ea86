// Package joblog is where a worker's log goes: to phosd's, no more of it than a program may cause,
// and to the file that the job asked for, opened with the program's rights. Read log.go first.
package joblog
