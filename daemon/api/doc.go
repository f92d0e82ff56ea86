// Package api is the local API of phosd: the messages and services of its gRPC API (daemon.proto),
// those between phosd and its workers (worker.proto), a typed client, and the mapping of errors to
// gRPC codes and back.
//
// Other modules may import this package, and those of docs/scheduling.md and the Example functions.
// It contains no mechanism: the servers are in daemon/phosd and daemon/worker. go generate makes
// the zz_ files from the .proto files. Read Client first, then CallerOf.
package api

//go:generate ../../scripts/protobuf.sh worker.proto daemon.proto
