package model

// Limits are the resources of an architecture, by which programs size their launches.
type Limits struct {
	// CC is the compute capability times ten.
	CC int
	// Threads, Blocks and SharedBytes are per multiprocessor.
	Threads, Blocks, SharedBytes int
	// BlockSharedBytes is the maximum of shared memory for a block whose kernel opts in to more than
	// PlainSharedBytes.
	BlockSharedBytes int
	// reservedBytes is shared memory that the multiprocessor reserves for each block, in addition to
	// the block's own.
	reservedBytes     int
	sharedGranularity int
}

// Limits that all architectures share.
const (
	WarpThreads      = 32
	MaxBlockThreads  = 1024
	MaxBlockZ        = 64
	MaxGridX         = 1<<31 - 1
	MaxGridYZ        = 65535
	PlainSharedBytes = 48 << 10
	ConstBytes       = 64 << 10
	MaxParamBytes    = 32764
	// Registers is the number of registers of a multiprocessor. One block may use all of them.
	Registers = 64 << 10
	// MaxRegistersPerThread is the limit of the instruction encoding of real devices.
	MaxRegistersPerThread = 255
	// multiprocessors is constant, so that programs see the same device on every machine.
	multiprocessors = 16
)

// capabilities lists the architectures that the software GPU can emulate, oldest first.
var capabilities = []Limits{
	{70, 2048, 32, 96 << 10, 96 << 10, 0, 256},
	{75, 1024, 16, 64 << 10, 64 << 10, 0, 256},
	{80, 2048, 32, 164 << 10, 163 << 10, 1 << 10, 128},
	{86, 1536, 16, 100 << 10, 99 << 10, 1 << 10, 128},
	{89, 1536, 24, 100 << 10, 99 << 10, 1 << 10, 128},
	{90, 2048, 32, 228 << 10, 227 << 10, 1 << 10, 128},
	{100, 2048, 32, 228 << 10, 227 << 10, 1 << 10, 128},
	{120, 1536, 24, 100 << 10, 99 << 10, 1 << 10, 128},
}

// limitsOf returns the limits of a capability that Parse has accepted.
func limitsOf(cc int) Limits {
	for _, c := range capabilities {
		if c.CC == cc {
			return c
		}
	}
	return capabilities[0]
}

// ActiveBlocks returns how many blocks fit one multiprocessor: the minimum over threads, shared
// memory, registers and the block limit. It is 0 if none fits.
func (l Limits) ActiveBlocks(threads, sharedBytes, registersOfThread int) int {
	warps := roundUp(threads, WarpThreads) / WarpThreads
	blocks := min(l.Blocks, l.Threads/WarpThreads/warps)
	if perBlock := roundUp(sharedBytes+l.reservedBytes, l.sharedGranularity); perBlock > 0 {
		blocks = min(blocks, l.SharedBytes/perBlock)
	}
	// Warps are distributed over four schedulers, each with a quarter of the registers, which are
	// allocated in units.
	const schedulers, unit = 4, 256
	if perWarp := roundUp(registersOfThread*WarpThreads, unit); perWarp > 0 {
		blocks = min(blocks, Registers/schedulers/perWarp*schedulers/warps)
	}
	return blocks
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
