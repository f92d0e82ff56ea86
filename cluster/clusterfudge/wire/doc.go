// Package wire is what crosses the network between the public client of Clusterfudge and phos: the
// messages and the service of clusterfudge.proto. It contains no mechanism.
//
// go generate makes the zz_ files. Tested by tests/cluster, which compares them with the
// descriptors of the client.
package wire

//go:generate ../../../scripts/protobuf.sh clusterfudge.proto
