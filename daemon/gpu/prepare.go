package gpu

// ContextPreparer is a Backend that can do the slow part of the first NewContext on a device in
// advance.
type ContextPreparer interface {
	// PrepareContext prepares the next NewContext on a device. It returns how much of the device's
	// memory this holds from now on.
	PrepareContext(ordinal int) (bytes uint64, err error)
}
