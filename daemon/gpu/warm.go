package gpu

// Warmer is a backend that can do beforehand what takes its first NewContext on a device long.
type Warmer interface {
	// Warm leaves the next NewContext on a device with little to do. It says how much of the device's
	// memory is held from now on.
	Warm(ordinal int) (bytes uint64, err error)
}
