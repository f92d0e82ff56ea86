// Package sessions starts, adopts and ends sessions. A session is one program and its worker: a
// process that runs as the program's user (daemon/worker).
//
//   - registry.go holds the sessions, and counts programs in users' quotas.
//   - start.go gives a new program its session; spawn.go starts or assigns the worker.
//   - watch.go ends a session when its worker or its program has ended.
//   - adopt.go takes over the workers of the phosd before.
//   - restore.go makes a session whose program is being restored.
//   - memory.go watches that programs do not fill the memory for sessions.
//   - trace.go starts and ends traces; daemon/worker/session/trace describes the file.
//
// The packages below: rundir keeps the files, standby keeps idle workers, lender opens files of a
// program for its worker.
//
// Lock order: Sessions.records before registry.mu before the locks of package quota. revoked.mu is
// taken alone.
//
// Tested by daemon/phosd. Read Sessions, then start.go.
package sessions
