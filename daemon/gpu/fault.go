package gpu

// FaultContainer is what a Backend offers when a fault harms nothing but the context that it
// happened in: the error says at which address it was, all memory can still be read and written,
// also what the work before the fault has written, and other contexts go on.
//
// Real GPUs cannot offer it. After an illegal access NVIDIA's driver leaves the whole process "in
// an inconsistent state", in which every later call of any context returns the same error until the
// process ends; it unmaps nothing and copies nothing any more. Another context in a fresh process
// has other memory, and what was in the lost one went with it. The address is known to the kernel's
// log (Xid 31) and to debuggers only. So the contract asks of every backend: that the fault has the
// right code and names the kernel, that everything that waits ends with it, that nothing runs any
// more, and that each Call does. Whoever wants a program's memory after a fault restores a
// checkpoint.
type FaultContainer interface {
	// ContainsFaults does nothing.
	ContainsFaults()
}
