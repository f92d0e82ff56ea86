//go:build amd64

package lanes

import "unsafe"

//go:noescape
func load32AVX(v *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32

//go:noescape
func store32AVX(v *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32
