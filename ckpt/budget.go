package ckpt

const (
	// fixedBytes is the memory that phosd and its helpers take for any checkpoint: CRIU, the
	// watchdog, and what they read of the image.
	fixedBytes = 24 << 20
	// deviceBytes is what a worker takes beside its copies of memory: the saved session and write
	// buffers.
	deviceBytes = 24 << 20
)

// budget returns the rest of the memory that the checkpoint may take.
func (c *checkpoint) budget() uint64 {
	left := c.order.Options.BudgetBytes
	for _, work := range c.workDirs {
		left -= min(left, work.MemoryBytes())
	}
	return left
}

// share returns a device's part of the memory for copies. At least half of a small budget is for
// copies: without copies nothing can be saved while the program runs.
func (c *checkpoint) share(devices int) uint64 {
	left, others := c.budget(), uint64(fixedBytes+devices*deviceBytes)
	return max(left/2, left-min(left, others)) / uint64(devices)
}
