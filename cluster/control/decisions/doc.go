// Package decisions keeps what the scheduler of a cluster was told and has decided: the log of
// scheduler/eventlog, a file for each leadership, on the machine of the controller that leads. A
// simulation replays it. It may be lost without harm, and a disk that is full ends the log and
// nothing else.
//
// Read log.go. tests/cluster compares it with a simulation of the same.
package decisions
