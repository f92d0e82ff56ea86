package gpu

// FaultContainer is implemented by a Backend where a fault affects only its own context. The error
// names the faulting address. All memory can still be read and written, including the results of
// work before the fault. Other contexts go on.
//
// Real GPUs cannot offer this. After an illegal access NVIDIA's driver leaves the whole process "in
// an inconsistent state": every later call in any context returns the same error until the process
// exits. Memory can be neither unmapped nor copied. A new context in another process has other
// memory, so the content is lost. Only the kernel log (Xid 31) and debuggers show the address.
//
// So the contract requires of every backend only this: the fault has the right code and names the
// kernel, everything that waits returns with it, no more work runs, and every Call still runs. To
// get a program's memory back after a fault, restore a checkpoint.
type FaultContainer interface {
	// ContainsFaults is a marker and does nothing.
	ContainsFaults()
}
