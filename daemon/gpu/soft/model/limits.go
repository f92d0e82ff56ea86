package model

// Limits are what an architecture offers: the numbers that programs size their launches by.
type Limits struct {
	// CC is the compute capability times ten.
	CC int
	// Threads and Blocks are per multiprocessor, SharedBytes too.
	Threads, Blocks, SharedBytes int
	// BlockSharedBytes is what a block can have when its kernel asks for more than PlainSharedBytes.
	BlockSharedBytes int
	// reservedBytes are taken from the multiprocessor for each block, beside the block's own.
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
	// Registers is the number of registers of a multiprocessor, all of which one block may have.
	Registers = 64 << 10
	// MaxRegistersPerThread is what the instruction encoding of real devices allows.
	MaxRegistersPerThread = 255
	// Multiprocessors is a fixed number: programs must see the same device on every machine.
	Multiprocessors = 16
)

// capabilities lists the architectures that the software GPU can pretend to be, oldest first.
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

func limitsOf(cc int) Limits {
	for _, c := range capabilities {
		if c.CC == cc {
			return c
		}
	}
	return capabilities[0]
}

// ActiveBlocks is the number of blocks that fit one multiprocessor: the least of what threads,
// shared memory, registers and the number of blocks allow. It is 0 where not even one fits.
func (l Limits) ActiveBlocks(threads, sharedBytes, registersOfThread int) int {
	warps := roundUp(threads, WarpThreads) / WarpThreads
	blocks := min(l.Blocks, l.Threads/WarpThreads/warps)
	if perBlock := roundUp(sharedBytes+l.reservedBytes, l.sharedGranularity); perBlock > 0 {
		blocks = min(blocks, l.SharedBytes/perBlock)
	}
	// Warps are dealt out to four schedulers, each with a quarter of the registers, and take them in
	// units.
	const schedulers, unit = 4, 256
	if perWarp := roundUp(registersOfThread*WarpThreads, unit); perWarp > 0 {
		blocks = min(blocks, Registers/schedulers/perWarp*schedulers/warps)
	}
	return blocks
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
