// Package ethernet is an Ethernet switch in user space, for the links of tests/hosts. Each port is
// a tap device in the network namespace of a host. Frames from one port to another pass a line,
// which can be cut, delayed, lossy or narrow, in each direction by itself.
//
// It is neither a router nor a model of real hardware: it knows addresses of Ethernet only, and a
// line without conditions delivers at once. Segments that a kernel leaves to its device
// (segmentation offload) stay whole, up to 64 KiB; a lost frame may be 40 packets of a real
// network.
//
// Lock order: a line's lock, then the switch's.
//
// Read switch.go first.
package ethernet
