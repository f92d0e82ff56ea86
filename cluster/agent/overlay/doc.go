// Package overlay gives the replicas of launches networks of their own. A replica has a network
// namespace, and in it an address that it keeps for life: the same after a restore on another node.
// So connections between replicas survive that their two ends are saved and restored.
//
// A launch has one network, with a number and a prefix that the leader has chosen. On each node of
// its replicas it is a bridge, to which their links and a VXLAN device are attached. Which node has
// which address is set by hand: the leader tells the agents, and nothing is learned from packets,
// because an address that moves would be looked for at its old place. Outside of the launch, the
// node's own address takes the place of a replica's. Replicas of different launches cannot reach
// each other.
//
// The namespace of a replica belongs to a user namespace that the launch's owner has made. The
// kernel therefore lets processes of that user, and so CRIU as that user, change connections there
// (TCP_REPAIR needs CAP_NET_ADMIN), and nowhere else. The owner's processes may also change their
// own addresses and routes: that harms only their launch, because the node's end of the link is
// not in the namespace.
//
// While the replicas of a launch are saved in one cut, and until a restored one runs, the node's
// end of its link is down: no packet arrives, and none leaves.
//
//	plan.go       names and addresses, from the leader's order
//	node.go       bridge, VXLAN device and forwarding entries of a node
//	make.go       a namespace that belongs to a user
//	namespace.go  its address and link
//	outside.go    what is outside: translated addresses, and what must not pass
//
// Read plan.go. What is sent between nodes is not encrypted.
package overlay
