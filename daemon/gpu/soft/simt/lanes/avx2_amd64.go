package lanes

// Implemented in avx2_amd64.s; find_amd64.go lists what each replaces.

//go:noescape
func add32AVX(d, a, b, c *V32)

//go:noescape
func sub32AVX(d, a, b, c *V32)

//go:noescape
func mul32AVX(d, a, b, c *V32)

//go:noescape
func and32AVX(d, a, b, c *V32)

//go:noescape
func or32AVX(d, a, b, c *V32)

//go:noescape
func xor32AVX(d, a, b, c *V32)

//go:noescape
func shl32AVX(d, a, b, c *V32)

//go:noescape
func shrU32AVX(d, a, b, c *V32)

//go:noescape
func shrS32AVX(d, a, b, c *V32)

//go:noescape
func minU32AVX(d, a, b, c *V32)

//go:noescape
func maxU32AVX(d, a, b, c *V32)

//go:noescape
func minS32AVX(d, a, b, c *V32)

//go:noescape
func maxS32AVX(d, a, b, c *V32)

//go:noescape
func not32AVX(d, a, b, c *V32)

//go:noescape
func neg32AVX(d, a, b, c *V32)

//go:noescape
func copy32AVX(d, a, b, c *V32)

//go:noescape
func mad32AVX(d, a, b, c *V32)

//go:noescape
func addF32AVX(d, a, b, c *V32)

//go:noescape
func subF32AVX(d, a, b, c *V32)

//go:noescape
func mulF32AVX(d, a, b, c *V32)

//go:noescape
func fmaF32AVX(d, a, b, c *V32)

//go:noescape
func floatS32AVX(d, a, b, c *V32)

//go:noescape
func add64AVX(d, a, b, c *V64)

//go:noescape
func sub64AVX(d, a, b, c *V64)

//go:noescape
func and64AVX(d, a, b, c *V64)

//go:noescape
func or64AVX(d, a, b, c *V64)

//go:noescape
func xor64AVX(d, a, b, c *V64)

//go:noescape
func addF64AVX(d, a, b, c *V64)

//go:noescape
func subF64AVX(d, a, b, c *V64)

//go:noescape
func mulF64AVX(d, a, b, c *V64)

//go:noescape
func not64AVX(d, a, b, c *V64)

//go:noescape
func neg64AVX(d, a, b, c *V64)

//go:noescape
func copy64AVX(d, a, b, c *V64)

//go:noescape
func fmaF64AVX(d, a, b, c *V64)

//go:noescape
func widenU32AVX(d *V64, a, b *V32, c *V64)

//go:noescape
func widenS32AVX(d *V64, a, b *V32, c *V64)

//go:noescape
func mulWideU32AVX(d *V64, a, b *V32, c *V64)

//go:noescape
func mulWideS32AVX(d *V64, a, b *V32, c *V64)

//go:noescape
func madWideU32AVX(d *V64, a, b *V32, c *V64)

//go:noescape
func madWideS32AVX(d *V64, a, b *V32, c *V64)

//go:noescape
func shl64AVX(d, a *V64, b *V32)

//go:noescape
func shrU64AVX(d, a *V64, b *V32)

//go:noescape
func eq32AVX(a, b *V32) uint32

//go:noescape
func ne32AVX(a, b *V32) uint32

//go:noescape
func ltS32AVX(a, b *V32) uint32

//go:noescape
func leU32AVX(a, b *V32) uint32

//go:noescape
func eqF32AVX(a, b *V32) uint32

//go:noescape
func ltF32AVX(a, b *V32) uint32

//go:noescape
func leF32AVX(a, b *V32) uint32

//go:noescape
func neuF32AVX(a, b *V32) uint32

//go:noescape
func eq64AVX(a, b *V64) uint32

//go:noescape
func ne64AVX(a, b *V64) uint32

//go:noescape
func ltS64AVX(a, b *V64) uint32
