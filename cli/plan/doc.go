// Package plan is pos_cli plan: templates, plans, recoveries and replays of pipeline-parallel
// training, from files to text, JSON and pictures.
//
// All that is decided is decided in cluster/pipeline; here are flags, reading, writing and words.
// It needs no phosd.
//
// Read verbs.go first.
package plan
