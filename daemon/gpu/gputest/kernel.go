package gputest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/phos-gpu/phos/daemon/gpu"
)

//go:embed kernels.ptx
var kernelsPTX string

// module loads PTX texts and allocates their variables.
func (b *bench) module(texts ...string) (gpu.Module, error) {
	return b.context.LoadModule(
		gpu.Image{PTX: texts},
		gpu.LoadOptions{Place: func(_ string, bytes, align uint64) (uint64, error) {
			if align > gpu.ChunkBytes || align&(align-1) != 0 {
				return 0, fmt.Errorf("alignment %d", align)
			}
			return b.alloc(int(bytes)), nil
		}},
	)
}

// mustModule is module, but an error ends the test.
func (b *bench) mustModule(texts ...string) gpu.Module {
	b.t.Helper()
	m, err := b.module(texts...)
	b.must(err)
	return m
}

// kernel loads the suite's kernels and returns one of them.
func (b *bench) kernel(name string) gpu.Function {
	b.t.Helper()
	return b.function(b.mustModule(kernelsPTX), name)
}

// function returns a kernel of a module. The test ends if there is none.
func (b *bench) function(m gpu.Module, name string) gpu.Function {
	b.t.Helper()
	f, err := m.Function(name)
	b.must(err)
	return f
}

// launch returns a one-dimensional launch. Parameters have the order and alignment of C.
func launch(f gpu.Function, grid, block uint32, args ...any) gpu.Launch {
	return gpu.Launch{Function: f, Grid: [3]uint32{grid, 1, 1}, Block: [3]uint32{block, 1, 1}, Params: pack(args...)}
}

// pack lays out kernel parameters as C does: in order, each aligned to its size.
func pack(args ...any) []byte {
	var out []byte
	align := func(n int) {
		for len(out)%n != 0 {
			out = append(out, 0)
		}
	}
	for _, arg := range args {
		switch arg := arg.(type) {
		case uint8:
			out = append(out, arg)
		case uint32:
			align(4)
			out = binary.LittleEndian.AppendUint32(out, arg)
		case uint64:
			align(8)
			out = binary.LittleEndian.AppendUint64(out, arg)
		case float64:
			align(8)
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(arg))
		default:
			panic(fmt.Sprintf("argument of type %T", arg))
		}
	}
	return out
}

// words returns values as little-endian bytes.
func words(values ...uint32) []byte {
	var out []byte
	for _, value := range values {
		out = binary.LittleEndian.AppendUint32(out, value)
	}
	return out
}
