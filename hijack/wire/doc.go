// Package wire is the shared-memory transport between libphos in a program and its worker: the
// layout of the session file, the frames, and the Go side of the ring. The C side is hijack/shim.
//
// A session belongs to one process and has two files in phos's own tmpfs: the session file
// (layout.go) and the pinned arena, mapped at the same address in both processes. After the
// handshake (handshake.go) the program holds no file descriptor of phos.
//
// Three locks guard the callback ring, the bounce area and the output ring. No two are held at the
// same time.
//
// # Frames
//
// The program posts frames into the submission ring; its threads are serialized by one futex lock,
// which spins before it sleeps. A frame starts at a multiple of 64 bytes and is contiguous (a pad
// frame fills the end of the ring). Its format is
//
//	u32 length     whole frame in bytes, header included, before rounding up to 64
//	u16 call       abi.Call number; 0 is padding
//	u16 flags      bit 0: the program waits for a reply; bits 1 and 2: the thread's stream capture
//	               mode, as cuThreadExchangeStreamCaptureMode set it
//	u32 slot       index of the calling thread's reply slot
//	u32 context    handle of the thread's current context, low half (0: none)
//	u64 sequence   counts frames of this session from 1
//	u64 reserved
//	payload        scalars as 8-byte little-endian words in the order of the spec, then inline
//	               arrays and strings, each as u64 byte count, bytes, padding to 8
//
// The reader checks the length, makes one private copy of the frame, and decodes only the copy. So
// a hostile program cannot change a frame while it is decoded.
//
// # Replies
//
// Each thread owns a reply slot (SlotBytes): u32 state, u32 result, u64 sequence, then data in the
// same encoding as a payload. The worker writes data, result, sequence and then state (release).
// States:
//
//	0 idle      the slot is free or its call is in progress
//	1 done      the reply is complete
//	2 service   the worker asks the waiting thread to copy: data is u64 direction (0 program to
//	            bounce area, 1 back), u64 address in the program, u64 bytes, u64 offset in the
//	            bounce area; the thread copies, sets state to 3 and continues to wait
//	3 served    the program did the copy
//	4 asleep    as 0, and the thread sleeps: a change of the state must wake it
//	5 absent    instead of 3: part of the range is not mapped in the program
//	6 pieces    as 2, for a program that has set WordCopies, in pieces of BouncePiece: piece n lies
//	            at n modulo BouncePieces in the bounce area. Each side counts the pieces that it
//	            has done; the writer of the area stays at most BouncePieces ahead of the reader,
//	            so that both copy at the same time
//
// Both sides spin, then sleep on a shared futex. The worker sleeps on the ring's doorbell, the
// program on its slot's state. It first changes the state from 0 to 4, so that a reply to a
// spinning thread costs no system call.
//
// # The gate
//
// Every entry of the program checks WordGate, except the end of a host function. While GateClosed
// is set entries wait; a thread that passed the gate earlier may still post one frame. A checkpoint
// closes the gate, waits until all posted calls are done, and freezes the program; then the file is
// saved unchanged. A restored session continues with that content in a new file with a new session
// number and GateRestored set, served by another worker. The program sees no other change.
//
// A thread that holds what cannot be saved (a userfaultfd) counts itself in WordHolds while the
// gate is open, and makes no call until it has let go. The checkpoint waits for zero.
//
// # Callbacks
//
// The worker appends records of CallbackRecord bytes: u32 kind, u32 0, u64 function, u64 user data,
// u64 stream, u32 status, u32 0, u64 id, zeros; then it adds to the head and wakes its low half.
// The program's callback thread runs the function and posts callbackDone with the id.
package wire
