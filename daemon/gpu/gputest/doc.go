// Package gputest is the conformance suite that every gpu.Backend passes unchanged.
//
// A backend's test calls Run with a function that opens the backend. Optional interfaces of a
// Memory (dirty tracking, absent chunks) are tested if they are implemented. The suite accesses
// devices only through package gpu: it brings its own PTX and compares every result with one
// computed on the host. No two of its locks are held at the same time. Tested by daemon/gpu/soft,
// daemon/gpu/shadow and tests/nested, which run it.
package gputest
