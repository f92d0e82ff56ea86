// Package store is the contract for what a cluster must not forget: objects with revisions, and
// which controller leads.
//
// An object is a key with a value. Each write names the revision that it replaces, so two writers
// never overwrite each other. There is no transaction over several objects: only the leader writes
// most of them, and each of its writes carries the epoch of its leadership, which the store
// compares in the same request. A leader that was replaced without knowing it can change nothing.
//
// The contract is small, so that the API server of Kubernetes can be an implementation beside etcd,
// which is cluster/store/etcd. Package cluster/store/storetest tests any implementation. The store
// knows nothing of what the values mean. Read store.go.
package store
