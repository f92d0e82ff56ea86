// Package images copies the image of a launch from the disk of one node to that of another, with
// the working directories of its processes, so that the launch goes on there.
//
// The agent of the node that needs an image asks that of the node that has it: one request of HTTP,
// by TLS with the certificates of both nodes. The request has the hashes of the contents that the
// node has in other images of the launch; they are not sent. The answer is the rest of the image as
// a stream (FORMAT.md, section 6), and an archive of the directories. The leader is asked whether
// the node may have the image.
//
// Files are read and written by processes of their owner, as in package saver: the agent's program,
// started again with a role. The agent copies between them and the network, and reads nothing of
// it. Each content is verified by its hash when it is received, and phosd verifies the seal of the
// image when it is restored. The working directories have neither: root of the node where the
// launch ran could have changed them there as well.
//
//	order.go    what is asked, and what the roles are told
//	serve.go    answers other nodes
//	fetch.go    asks another node, again while it cannot be reached
//	send.go     the role that reads
//	receive.go  the role that writes
//	pack.go     a directory as an archive; unpack.go: back
//	copier.go   images that a node keeps for others
//
// Read order.go. tests/cluster moves launches between nodes.
package images
