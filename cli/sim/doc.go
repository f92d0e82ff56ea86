// Package sim implements the sim verbs of pos_cli: it reads or generates a trace, composes a
// scheduler from the names of policies, runs it with scheduler/sim or scheduler/compat, and writes
// results, tables and charts.
//
// It does not use phosd, and makes no scheduling decisions. Read verbs.go, then settings.go;
// flagrules.go has the rules about flags without effect.
package sim
