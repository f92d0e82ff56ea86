// Package launch starts a program under phos: the variables that put libphos.so in place of the
// driver (library.go), the program's settings in PHOS_JOB (job.go), the choice of GPUs (gpus.go),
// and the start itself (run.go; first.go in a container). Read Options first. Tested here, by
// tests/script and by tests/containers.
package launch
