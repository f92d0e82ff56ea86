// Package eventlog is the log of what a scheduler decided, and of the events by which it did: a
// line of JSON each. A simulation writes it, and so does a cluster: Log makes the lines out of the
// events and plans of a scheduler.Engine, whatever carries them out.
//
// docs/events.md is the format. Its version is in the first line. A Reader of version 1.x skips
// what later minor versions have added, and refuses other major versions. Check reads a log and
// reports the first line that cannot be true, as a GPU that two jobs have.
//
// The package has no locks and starts nothing: the goroutine that calls the engine calls the Log.
// Memory is that of the jobs that have not ended.
//
// Read event.go first, then log.go.
package eventlog
