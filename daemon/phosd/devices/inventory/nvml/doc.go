// Package nvml is an inventory.Source over NVIDIA's management library, by go-nvml. It is the only
// package that imports go-nvml, which needs cgo; without cgo, Open returns
// inventory.ErrUnsupported. The library is loaded at run time and is not needed to build.
//
// NVML runs the driver's code in the process that opens it: only phosd's role "inventory" does.
// Read source.go, then query.go.
package nvml

// Library is NVML's name, by which the loader finds it.
const Library = "libnvidia-ml.so.1"
