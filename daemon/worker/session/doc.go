// Package session is one program's half of the driver that lives in its worker: it answers every
// forwarded call. It knows handles, ownership, addresses, order between streams, capture and
// graphs; how work runs is the gpu.Backend's.
//
// Read Session and Call first. Each handler is a method named after its call in hijack/spec and
// stands in the file of its topic; zz_dispatch.go leads there. Leaf packages hold what needs no
// backend: heap the allocators, object the graph of everything the program has made, graph the
// graphs and the rules of capture, virtual what the program maps where.
//
// # Locking
//
// Handlers run one at a time, in the order of the ring, with Session.mu held, and must not wait for
// a GPU or for the program. What has to wait is handed to Call.Beside and runs without the lock.
// Functions that streams run (gpu.Call, gpu.Tell) never take Session.mu: someone who holds it may
// be waiting for them.
package session
