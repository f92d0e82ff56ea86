// Package wire is the shared-memory transport between libphos inside a program and its worker: the
// layout of the session file, frames, and the Go side of the ring. The C side is hijack/shim.
//
// One session is one program process and has two files in phos's own tmpfs: the session file
// (layout.go) and the pinned arena, mapped at one address on both sides. Nothing here holds a file
// descriptor in the program after the handshake (handshake.go).
//
// # Frames
//
// The program posts frames into the submission ring; one spin lock keeps the order of its threads.
// A frame starts at a multiple of 64 bytes, is contiguous (a pad frame fills the end of the ring),
// and is
//
//	u32 length     whole frame in bytes, header included, before rounding up to 64
//	u16 call       abi.Call number; 0 is padding
//	u16 flags      bit 0: the program waits for a reply; bits 1 and 2: the thread's stream capture mode,
//	               as cuThreadExchangeStreamCaptureMode set it
//	u32 slot       index of the calling thread's reply slot
//	u32 context    handle of the thread's current context, low half (0: none)
//	u64 sequence   counts frames of this session from 1
//	u64 reserved
//	payload        scalars as 8-byte little-endian words in the order of the spec, then inline arrays and strings,
//	               each as u64 byte count, bytes, padding to 8
//
// A reader takes one private copy of a frame after checking its length, and decodes only the copy:
// what a hostile program writes meanwhile changes nothing.
//
// # Replies
//
// Each thread owns a reply slot (SlotBytes): u32 state, u32 result, u64 sequence, then data in the
// same encoding as a payload. The worker writes data, result, sequence and then state (release).
// States:
//
//	0 idle      the slot is free or its call is in progress
//	1 done      the reply is complete
//	2 service   the worker asks the waiting thread to copy: data is u64 direction (0 program to bounce area, 1 back),
//	            u64 address in the program, u64 bytes, u64 offset in the bounce area; the thread copies, sets
//	            state to 3 and goes on waiting
//	3 served    the program did the copy
//	4 asleep    as 0, and the thread sleeps: whoever changes the state wakes it
//	5 absent    in place of 3: a part of the range is no memory of the program
//	6 pieces    as 2, for a program that has set WordCopies, in pieces of BouncePiece: piece n lies at n modulo
//	            BouncePieces in the bounce area. Each side counts those that it has done; who fills the area stays at
//	            most BouncePieces ahead of who empties it, so that both copy at the same time
//
// Both sides spin, then sleep in a shared futex: the program on its slot's state, which it changes
// from 0 to 4 first so that a reply to a spinning thread costs no system call, the worker on the
// ring's doorbell.
//
// # The gate
//
// Every entry of the program looks at WordGate, except the end of a host function. While GateClosed
// is set entries wait; a thread that was past it already may still post one frame. A checkpoint
// closes the gate, waits until everything posted is done, and has the program frozen; then the file
// is saved as it is. A restored session goes on with that content in a new file under a new number,
// GateRestored set, served by another worker: nothing else has changed for the program.
//
// # Callbacks
//
// The worker appends records of CallbackRecord bytes: u32 kind, u32 0, u64 function, u64 user data,
// u64 stream, u32 status, u32 0, u64 id, zeros; then it adds to the head and wakes its low half.
// The program's callback thread runs the function and posts callbackDone with the id.
package wire
