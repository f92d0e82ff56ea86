// Package gputest is the conformance suite that every gpu.Backend passes unchanged.
//
// A backend's test calls Run with a function that opens the backend. What a Memory may offer beyond
// the contract (marks, absent chunks) is tested where it is offered. The suite knows devices only
// through package gpu: it brings PTX of its own and compares every result with one computed here.
package gputest
