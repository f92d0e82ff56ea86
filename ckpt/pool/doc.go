// Package pool shares a list of work among goroutines, which are quiet where a program runs beside
// them.
package pool
