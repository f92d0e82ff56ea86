// Package checkpoint tests that a checkpoint, a kill and a restore do not change a program's
// results.
//
// The programs check their own results and run under a phosd of the test. The tests save and
// restore them with pos_cli, as a user would. Output, files and exit status must be equal to those
// of an undisturbed run, byte by byte.
package checkpoint
