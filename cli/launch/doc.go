// Package launch starts a program under phos: the variables that put libphos.so in place of the
// driver (library.go), the program's settings in PHOS_JOB (job.go), the choice of GPUs
// (gpus.go), and the start itself (run.go). Read Options first. Tested here and by tests/script.
package launch
