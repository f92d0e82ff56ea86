// Package code handles the calls about modules, libraries and kernels: loading, launching, and
// questions about them.
//
// # Locking
//
// loads.turn comes before loads.mu. What is loaded with turn held takes heap locks; mu is a leaf.
// Only a load waits for turn, and it does so beside the ring, except for a library's first use in a
// context. Package session has the order of all locks.
package code
