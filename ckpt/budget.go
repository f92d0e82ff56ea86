package ckpt

const (
	// ownBytes is the memory that phosd and its helpers take for a checkpoint, whatever its size:
	// CRIU, the watchdog, what is read of the image.
	ownBytes = 24 << 20
	// deviceBytes is what a worker takes beside its copies of memory: the saved session, and what is
	// being written.
	deviceBytes = 24 << 20
)

// budget is what is left of the memory that the checkpoint may take, without what is taken already.
func (v *saving) budget() uint64 {
	left := v.order.Options.BudgetBytes
	for _, work := range v.work {
		left -= min(left, work.MemoryBytes())
	}
	return left
}

// share is a device's part of the memory for copies. A small budget goes to them with its half:
// without any copies nothing is saved while the program runs.
func (v *saving) share(devices int) uint64 {
	left, others := v.budget(), uint64(ownBytes+devices*deviceBytes)
	return max(left/2, left-min(left, others)) / uint64(devices)
}
