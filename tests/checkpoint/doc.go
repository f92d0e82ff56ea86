// Package checkpoint proves that a program's results do not show whether it was saved, killed and
// restored.
//
// Programs that check themselves run under a phosd of the test's own. They are saved and restored
// by the command line, as a user would do it. What they leave (output, files, exit status) is
// compared, bit by bit, with an undisturbed run.
package checkpoint
