package wire

// The handshake runs over a SOCK_STREAM unix socket, the same socket that serves the gRPC API:
// phosd looks at the first four bytes. Messages are fixed structs, little endian.
//
//	program  Hello    magic "PHOS", version, flags, address and value of the liveness cookie
//	worker   Welcome  status (0 or a Result), session, sizes, paths, or a message for stderr
//	program  Mapped   the arena address it mapped (0: none of the candidates was free)
//	worker   Placed   0: agreed, the session is live; 1: taken here, map elsewhere and send Mapped
//	                  again
//
// phosd passes the accepted socket to the new worker, which answers all messages. If phosd refuses
// earlier, it sends the Welcome itself. At the end the shim closes the socket.
//
// The cookie is a word in the shim's data. The worker polls it: if it is gone while the process
// lives, the program has called exec, and the session ends.
const (
	Magic = 0x534f4850 // "PHOS"

	// magic u32, version u32, flags u64 (bit 0: copy by the shim, for tests), cookie address u64,
	// cookie u64, pid u32 as the program sees it, pad
	HelloBytes = 64
	// magic u32, version u32, status u32, worker pid u32 (for PR_SET_PTRACER, 0 if the program is in
	// another pid namespace), session u64, session bytes u64, arena bytes u64, paths: session 128,
	// arena 128, message 200 (NUL terminated)
	WelcomeBytes = 512
	MappedBytes  = 8
	PlacedBytes  = 4
)
