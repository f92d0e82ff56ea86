// Package nesting tests the backend for real GPUs without one: its driver is libphos.so, and behind that stands a second phosd
// with a software GPU.
package nesting
