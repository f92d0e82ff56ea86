// Package joblog provides the handlers of a worker's log. Records go to phosd's log, at a limited
// rate, and to the file that the job's log_path names, opened with the program's rights. Read
// log.go first.
package joblog
