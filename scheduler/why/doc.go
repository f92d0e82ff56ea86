// Package why explains, for a job of an Engine, why it waits: as data (Answer) and in short English
// (Answer.Text).
//
// Explain reads the engine: admission, caps, what is free and where, the jobs before it, what could
// be preempted, and reservations. Ahead estimates when the job starts, by simulating a copy of the
// engine; the copy is made where the engine is used, and the simulation can run anywhere. Missing
// has the text for jobs that can never run on the cluster. Nothing here decides or changes anything.
//
// What it costs is bounded: Explain looks at each waiting job before the one that it explains and at
// each node once; a copy takes time in proportion to the jobs, and the simulation ends after a given
// number of steps.
//
// The package has no locks. Read answer.go first, then explain.go and ahead.go.
package why
