// Package checkpoint proves that nobody can tell from a program's results whether it was saved,
// killed and brought back.
//
// Programs that check themselves run under a phosd of the test's own, are saved and restored by the
// command line as a user would do it, and what they leave (output, files, exit status) is compared,
// bit by bit, with a run that nobody disturbed.
package checkpoint
