package wire

// Version is the version of this package's formats. A worker refuses a shim of another version in
// the handshake, and says so.
const Version = 2

// The session file, regions in order. hijack/gen writes the same numbers for C into
// shim/zz_layout.h.
const (
	HeaderOffset   = 0
	HeaderBytes    = 64 << 10 // header words, then the device table
	RingOffset     = HeaderOffset + HeaderBytes
	RingBytes      = 2 << 20
	SlotsOffset    = RingOffset + RingBytes
	SlotBytes      = 1 << 10
	SlotCount      = 256
	CallbackOffset = SlotsOffset + SlotBytes*SlotCount
	CallbackBytes  = 64 << 10 // ring of host functions to run in the program
	EventsOffset   = CallbackOffset + CallbackBytes
	EventCount     = 32 << 10 // completion words of events, u64 each
	OutputOffset   = EventsOffset + 8*EventCount
	OutputBytes    = 1 << 20 // byte ring of device printf
	BounceOffset   = OutputOffset + OutputBytes
	BounceBytes    = 4 << 20 // bounce area, for copies that process_vm_readv may not do
	SessionBytes   = BounceOffset + BounceBytes
)

// Header words: byte offsets in the header. Words that both sides poll have a cache line each.
const (
	WordMagic         = 0   // u32 "PHOS"
	WordVersion       = 4   // u32 Version
	WordSession       = 8   // u64 session number
	WordArenaBase     = 16  // u64 address of the pinned arena
	WordArenaBytes    = 24  // u64
	WordDeviceCount   = 32  // u32, and then the device table at DeviceTable
	WordDriverVersion = 36  // u32 the result of cuDriverGetVersion
	WordHead          = 64  // u64 bytes ever posted; written by the program
	WordTail          = 128 // u64 bytes ever consumed; written by the worker
	WordDoorbell      = 192 // u32 worker: 1 asleep, 0 awake; futex
	WordLock          = 256 // u32 the program's lock around posting; futex
	WordError         = 320 // u32 first error of an asynchronous call, cleared when reported unless sticky
	WordSticky        = 324 // u32 sticky fault: every later call returns it
	WordDead          = 328 // u32 set by phosd when the worker has exited
	WordGate          = 332 // u32 bits GateClosed, GateFull and GateRestored; futex
	WordCapturing     = 336 // u32 number of streams being captured in this process
	WordEpoch         = 340 // u32 how often the session was restored
	WordWorker        = 344 // u32 after a restore, the worker's pid as the program sees it; 0: in another pid namespace
	WordCopies        = 348 // u32 CopiesInPieces if the program knows SlotPieces; set by the program
	WordDamage        = 352 // u32 1: DamageText says that memory of the image is lost; 2: the program has told its user
	WordHolds         = 356 // u32 how many threads hold what no checkpoint can save; set by the program
	WordHeartbeat     = 384 // u64 the worker increments it while alive
	WordCompleted     = 448 // u64 sequence of the last completed frame
	WordCallbackHead  = 512 // u64 bytes ever posted to the callback ring; written by the worker; futex on the low half
	WordCallbackTail  = 576 // u64 written by the program
	WordOutputHead    = 640 // u64 bytes ever printed; written by the worker
	WordOutputTail    = 704 // u64 written by the program
	DeviceTable       = 4096
	DeviceBytes       = 2048 // per device: name 256, uuid 16, u64 memory, u32 attributes[300], u64 window and its size
	DeviceMax         = 24
	DamageText        = 56 << 10 // after the device table: the text, with a NUL
	DamageBytes       = 1 << 10
)

// Bits of WordGate.
const (
	GateClosed = 1 // every call waits here: a checkpoint is being taken
	GateFull   = 2 // calls without an answer wait here: too much of the posted work is pending
	// GateRestored stops nothing. The first entry that sees it adapts to the restored session and
	// clears it.
	GateRestored = 4
)

// Frame header offsets.
const (
	FrameAlign    = 64
	FrameHeader   = 32
	FrameMax      = RingBytes / 4 // the longest frame, with its header
	FlagWait      = 1
	FlagModeShift = 1        // the thread's stream capture mode, two bits
	InlineMax     = 64 << 10 // larger data goes by reference
	StringMax     = 4095     // bytes of a name or path, without the NUL
	SlotHeader    = 16
	SlotDataBytes = SlotBytes - SlotHeader
)

// EventAsk in an event's completion word means that the word does not have the answer: graphs
// record the event, and the program does not count these records.
const EventAsk = 1<<63 - 1

// Reply slot states.
const (
	SlotIdle    = 0
	SlotDone    = 1
	SlotService = 2
	SlotServed  = 3
	SlotAsleep  = 4 // as idle, and the thread sleeps on the state
	SlotAbsent  = 5 // instead of served: part of the range is not mapped in the program
	SlotPieces  = 6 // as service, but the worker copies its half at the same time
)

// CopiesInPieces means that the program knows SlotPieces. The libphos of old images does not.
const CopiesInPieces = 1

// Words of a slot while its thread copies in pieces: offsets in the slot, on separate cache lines.
const (
	SlotProgramPieces = 128 // u32 how many pieces the program has done
	SlotProgramCore   = 132 // u32 the core that it did the last one on
	SlotWorkerPieces  = 192 // u32 how many pieces the worker has done
)

// The bounce area of a copy in pieces.
const (
	BouncePiece  = 128 << 10
	BouncePieces = 4 // all of them fit in a core's cache
)

// The callback ring: records of CallbackRecord bytes.
const (
	CallbackRecord  = 64
	CallbackHost    = 0 // void function(void *userData)
	CallbackStream  = 1 // void function(stream, status, void *userData)
	CallbackDestroy = 2 // as CallbackHost, for a user object; no stream waits
)
