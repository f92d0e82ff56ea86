// Package api is how phosd is spoken to: the messages and services of its gRPC API (daemon.proto),
// those between phosd and its workers (worker.proto), a typed client, and the mapping of errors to
// gRPC codes and back.
//
// It knows no mechanism: the servers are in daemon and daemon/worker. The zz_ files come from the
// .proto files by generate.sh. Read Client first, then ActorOf.
package api

//go:generate ./generate.sh
