// Package storetest tests any implementation of cluster/store.Store: Run has what the contract
// says. Proxy is a socket between a client and its store that can be cut.
//
// Tested by cluster/store/etcd.
package storetest
