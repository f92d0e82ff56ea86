// Package memory handles the calls about memory: allocations, pools, pinned and registered memory,
// blocks that the program maps itself, and memory of other sessions. It opens and closes the
// devices that memory lies on. Tested by the tests of package session.
package memory
