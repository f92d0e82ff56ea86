// Package local finds the caller of a request that comes from the controller's own machine, without
// certificate or token: over a unix socket or, in clear, over loopback. The kernel says which user
// made the socket (internal/linux/peer, internal/linux/tcpowner). Root is an administrator, and any
// other user is the account of that name.
//
// Nothing but loopback may be served in clear: CheckListener.
//
// A web browser sends requests to loopback for any page that asks it to, and the kernel names the
// user of the browser. CheckPage refuses those of foreign pages, also of pages whose name was made
// to resolve to loopback. Requests that change something must not be GET, because browsers send
// GET without naming the page.
//
// A proxy on the machine makes all its callers one of itself. Do not let a proxy of root forward to
// the loopback port. In a container with the network of the machine, and no user namespace, root is
// root here.
//
// Read caller.go.
package local
