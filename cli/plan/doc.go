// Package plan implements pos_cli plan: templates, plans, recoveries and replays of
// pipeline-parallel training, from files to text, JSON and charts.
//
// All decisions are made in cluster/pipeline; this package has flags, input, output and texts. It
// does not use phosd. Tested by tests/script.
//
// Read verbs.go first.
package plan
