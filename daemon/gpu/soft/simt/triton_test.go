package simt_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
)

// TestTritonMatmul runs Triton's code for tl.dot on compute capability 8.0, with three stages of
// cp.async in flight, ldmatrix and mma: c[m,n] = a[m,k] b[k,n] in tiles of 32 with masked edges.
func TestTritonMatmul(t *testing.T) {
	const rows, columns, inner = 80, 48, 112
	for _, test := range []struct {
		file      string
		kind      string
		shared    uint32
		tolerance float64
	}{
		{"../../../../internal/ptx/testdata/triton_matmul_half.ptx", "f16", 8192, math.Exp2(-21)},
		{"../../../../internal/ptx/testdata/triton_matmul_tf32.ptx", "tf32", 16384, math.Exp2(-21)},
	} {
		t.Run(test.kind, func(t *testing.T) {
			text, err := os.ReadFile(test.file)
			if err != nil {
				t.Fatal(err)
			}
			m := newMachine(t)
			r := rand.New(rand.NewPCG(1, 2))
			a, atA := m.array(test.kind, rows*inner, r)
			b, atB := m.array(test.kind, inner*columns, r)
			out := m.alloc(4 * rows * columns)
			arguments := params(atA, atB, out)
			for _, n := range []uint32{rows, columns, inner, inner, columns, columns} {
				arguments = binary.LittleEndian.AppendUint32(arguments, n)
			}
			err = simt.NewEngine(
				simt.Options{Cores: 2},
			).Run(
				context.Background(),
				m.kernel(m.link(string(text)), "mm"),
				simt.Launch{
					Grid: [3]uint32{(rows + 31) / 32, (columns + 31) / 32, 1}, Block: [3]uint32{64, 1, 1},
					SharedBytes: test.shared, Params: arguments,
				},
				m.memory,
				nil,
			)
			if err != nil {
				t.Fatal(err)
			}
			for i, bits := range m.read32(out, rows*columns) {
				want, size := 0.0, 0.0
				for k := range inner {
					product := a[i/columns*inner+k] * b[k*columns+i%columns]
					want, size = want+product, size+math.Abs(product)
				}
				if got := float64(math.Float32frombits(bits)); math.Abs(got-want) > size*test.tolerance {
					t.Fatalf("row %d, column %d: got %v, want %v", i/columns, i%columns, got, want)
				}
			}
		})
	}
}

// array stores random numbers of a type in memory, with padding for addresses that are masked
// anyway.
func (m *machine) array(kind string, count int, r *rand.Rand) (values []float64, address uint64) {
	m.t.Helper()
	e := elements[kind]
	var raw []byte
	for range count {
		bits := random(r, kind, false)
		values = append(values, e.decode(bits))
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], bits)
		raw = append(raw, word[:e.bytes]...)
	}
	address = m.alloc(uint64(len(raw)))
	if _, err := m.memory.WriteAt(raw, int64(address)); err != nil {
		m.t.Fatal(err)
	}
	return values, address
}
