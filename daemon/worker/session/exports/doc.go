// Package exports offers a session's memory and events to other sessions of the same user, by
// tokens (daemon/worker/ipc). Tested by the tests of daemon/worker and by tests/e2e.
package exports
