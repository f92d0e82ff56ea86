// Package tcpowner tells which user's socket is at the other end of a TCP connection over loopback,
// for connections that carry no other proof of the caller.
//
// The kernel lists the sockets of a network namespace in /proc/net/tcp and tcp6, each with its two
// addresses, its state, its inode, and the user that created it. The socket of the peer is the one
// whose own address is this side's remote address, and the other way round.
//
// # Why the answer is sound
//
//   - A namespace has at most one established socket with a given pair of addresses. The kernel
//     drops packets of loopback addresses that come in from other machines, unless route_localnet
//     is set; and a connection made by such packets has no other end in this namespace's table.
//   - The table is the one of the connection's own namespace: this side's socket must stand in it,
//     with the inode that its descriptor has. A listener that was inherited from another namespace
//     is therefore refused, and not looked up among the wrong sockets.
//   - The peer cannot be exchanged while it is looked for. When it closes its socket, or resets the
//     connection, this side leaves the state ESTABLISHED at once. Of asks for that state last, so
//     the addresses have belonged to this connection all the time. Without this check a process
//     could send a request, reset the connection, and let the next user of its port be taken for
//     the sender.
//   - A socket that no process holds has inode 0, and many kernels show user 0 for it. It is
//     refused.
//   - A user that this user namespace does not map is shown as the overflow user, which is refused.
//
// # What it does not say
//
// The user is that of the process which created the socket. A process can hand its socket to
// another one, and answers for what that one does with it. A process with CAP_NET_ADMIN in the
// namespace can forge connections (TCP_REPAIR), and one with CAP_CHOWN can give sockets away: both
// must be trusted. A proxy that accepts connections from elsewhere and forwards them to
// loopback makes all of them its own, and a web browser sends what any page asks it to send:
// package cluster/identity/local refuses the requests of foreign pages.
//
// Of reads the whole table, which takes time in proportion to the sockets of the machine. Ask once
// a connection. Read owner.go.
package tcpowner
