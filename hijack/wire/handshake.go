package wire

// The handshake runs over a SOCK_STREAM unix socket, the same socket that serves the gRPC API:
// phosd looks at the first four bytes. Messages are fixed structs, little endian.
//
//	program  Hello    magic "PHOS", version, flags, address and value of the liveness cookie
//	worker   Welcome  status (0 or a Result), session, sizes, paths, or a message for stderr
//	program  Visible  u32 length, then the value of CUDA_VISIBLE_DEVICES
//	worker   Seen     0, or the Result with which the program cannot start; the session ends then
//	program  Tracker  one byte, and a userfaultfd of the program as ancillary data, if there is one
//	program  Mapped   the arena address it mapped (0: none of the candidates was free)
//	worker   Placed   0: agreed, the session is live; 1: taken here, map elsewhere and send Mapped
//	                  again
//
// phosd passes the accepted socket to the new worker, which answers all messages. If phosd refuses
// earlier, it sends the Welcome itself. At the end the shim closes the socket.
//
// Visible and Seen are sent only if the Hello has HelloVisible and the Welcome WelcomeVisible, so
// that a libphos.so and a phosd of which one does not know them still work together: all GPUs are
// visible then. Tracker is sent only if they have HelloTracked and WelcomeTracked.
//
// The cookie is a word in the shim's data. The worker polls it: if it is gone while the process
// lives, the program has called exec, and the session ends.
const (
	Magic = 0x534f4850 // "PHOS"

	// magic u32, version u32, flags u64 (HelloCopyByShim, HelloVisible, HelloTracked), cookie address
	// u64, cookie u64, pid u32 as the program sees it, pad
	HelloBytes = 64
	// magic u32, version u32, status u32, worker pid u32 (for PR_SET_PTRACER, 0 if the program is in
	// another pid namespace), session u64, session bytes u64, arena bytes u64, paths: session 128,
	// arena 128, message 200 (NUL terminated), features u32 (WelcomeVisible, WelcomeTracked)
	WelcomeBytes = 512
	// MaxVisibleBytes is the most that a Visible has after its length.
	MaxVisibleBytes = 4095
	SeenBytes       = 4
	MappedBytes     = 8
	PlacedBytes     = 4

	// HelloCopyByShim in Hello.Flags forbids the worker to access the program's memory directly.
	HelloCopyByShim = 1
	// HelloVisible in Hello.Flags offers a Visible.
	HelloVisible = 2
	// HelloTracked offers a Tracker.
	HelloTracked = 4
	// WelcomeVisible in Welcome.Features accepts a Visible, WelcomeTracked a Tracker.
	WelcomeVisible = 1
	WelcomeTracked = 2
)
