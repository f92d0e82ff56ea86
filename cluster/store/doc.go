// Package store is the contract for what a cluster must not forget: objects with revisions, and who
// leads.
//
// An object is a key with a value. Each write names the revision that it replaces, so two writers
// never overwrite each other. There is no transaction over several objects: only the leader writes
// most of them, and each of its writes carries the epoch of its leadership, which the store compares
// in the same request. A leader that was replaced without knowing it can therefore change nothing.
//
// Package cluster/store/etcd implements the contract on etcd, cluster/store/etcd/server runs an etcd
// inside the controller. It is small, so that the API server of Kubernetes can be another
// implementation. cluster/store/storetest tests any implementation.
//
// The store knows nothing of what the values mean: cluster/record has their format. Read store.go.
package store
