// Package session is one program's half of the driver that lives in its worker: it answers every
// forwarded call. It knows handles, addresses, the order between streams, capture and graphs; how
// work runs is the gpu.Backend's.
//
// Read Session, then package core. A call is routed by zz_topics.go to one of the packages streams,
// memory, copies, contexts, code and graphs. Each has a generated Dispatch, the handlers of its
// calls, and beside each kind of object how it is saved and restored. Package session keeps what
// concerns all topics: routing, the order of the steps of saving and restoring, tracing, progress.
//
// Topics import one another in one order: core, exports and reclaim are below all of them; copies,
// contexts and code import memory; graphs imports streams, copies and code. Where a call goes
// against this order, the lower package has an interface or a function that session.New sets:
// memory.Loader, code.Code.Unloading, core.Core.DiscardGraph.
//
// Leaf packages hold what needs no backend: heap the allocators, object the graph of everything the
// program has made, graph the graphs and the rules of capture, virtual what the program maps where,
// saved what a saved session is written as.
//
// # Locking
//
// Handlers run one at a time, in the order of the ring, with core.Core.Mu held. They must not wait
// for a GPU or for the program. Work that waits is handed to Call.Detach and runs without the lock.
// Functions that streams run (gpu.Call, gpu.Completion) never take Mu: a goroutine that holds it
// may be waiting for them.
//
// All locks of this package and of those below it, in the order in which they may be taken:
//
//  1. core.Core.Mu, the session's lock.
//  2. code.loads.turn, one a device: the driver loads and unloads code with it held, and asks for
//     memory of variables.
//  3. memory.hostMappings.mu: which devices are open, and what of the program's memory they map.
//  4. heap.Heap.mu and heap.Arena.mu: the allocators.
//
// No other lock is taken while one of these is held, so that streams and other goroutines may take
// them at any time: streams.event.mu, streams.words.mu, streams.callbacks.mu, core.backlog.mu,
// exports.Exports.mu, code.loads.mu, reclaim.deferred.mu, memory.pool.mu, memory.placements.mu,
// copies.watched.mu, trace.Log.mu.
package session
