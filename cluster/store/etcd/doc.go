// Package etcd is a cluster/store.Store in an etcd, which another package or an administrator runs.
//
// Below the prefix, the key "leader" is the leadership, and objects are below "objects/". An
// object's revision is etcd's ModRevision, so a write is one transaction that compares it. The
// epoch of a leadership is the revision at which the key "leader" was created, which the same
// transaction compares. That key belongs to a lease: it is gone when the lease ends, and the next
// leader creates it again, at a higher revision. concurrency.Election of etcd's client is not used:
// there each candidate has a key of its own, and the epoch alone would not say which one to
// compare.
//
// Each request has a time limit of its own, because a connection to a process that stands still
// looks like any other. Watches notice that by pings, which takes up to 13 seconds.
//
// # Locking
//
// leadership.mu is the only lock.
//
// Read store.go first, then election.go and leadership.go.
package etcd
