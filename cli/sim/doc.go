// Package sim is what pos_cli does with simulations of the scheduler: it reads a trace or makes one
// up, puts a scheduler together from the names of policies, lets package scheduler/sim or
// scheduler/compat run it, and writes results, tables and pictures.
//
// It needs no phosd, and decides nothing about scheduling. Read verbs.go, then settings.go.
package sim
