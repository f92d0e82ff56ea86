package virtual

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

const (
	chunk = gpu.ChunkBytes
	base  = 0x3080_0000_0000
)

func chunks(first, n int) gpu.Range {
	return gpu.Range{Address: base + uint64(first)*chunk, Bytes: uint64(n) * chunk}
}

func window() []gpu.Range {
	return []gpu.Range{chunks(0, 64), {Address: base + 1<<40, Bytes: 64 * chunk}}
}

// model holds for each chunk its reservation and its mapping, each as the index of its first chunk
// plus one.
type model struct{ reserved, mapped [64]int }

// owned reports whether a span is exactly one entry of a table.
func owned(table *[64]int, first, n int) bool {
	if n <= 0 || first+n > 64 {
		return false
	}
	for i := first; i < first+n; i++ {
		if table[i] != first+1 {
			return false
		}
	}
	return first+n == 64 || table[first+n] != first+1
}

// whole reports whether a span consists of whole mappings of one reservation without gaps.
func (m *model) whole(first, n int) bool {
	if n <= 0 || first+n > 64 || m.mapped[first] != first+1 ||
		first+n < 64 && m.mapped[first+n] != 0 && m.mapped[first+n] <= first+n {
		return false
	}
	for i := first; i < first+n; i++ {
		if m.mapped[i] == 0 || m.reserved[i] != m.reserved[first] {
			return false
		}
	}
	return true
}

func (m *model) mappable(first, n int) bool {
	if n <= 0 || first+n > 64 || m.reserved[first] == 0 {
		return false
	}
	for i := first; i < first+n; i++ {
		if m.reserved[i] != m.reserved[first] || m.mapped[i] != 0 {
			return false
		}
	}
	return true
}

func (m *model) free(first, n int) bool {
	for i := first; i < min(first+n, 64); i++ {
		if m.reserved[i] != 0 {
			return false
		}
	}
	return n > 0 && first+n <= 64
}

func fill(table *[64]int, first, n, with int) {
	for i := first; i < first+n; i++ {
		table[i] = with
	}
}

// TestSpaceAgainstModel runs random operations and compares their success with a model.
func TestSpaceAgainstModel(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 5))
		s, m := New(window(), nil), &model{}
		for step := range 3000 {
			first, n := r.IntN(64), r.IntN(7)
			at := chunks(first, n)
			var err error
			var want bool
			switch r.IntN(5) {
			case 0:
				if want, err = m.free(first, n), s.ReserveAt(at); want {
					fill(&m.reserved, first, n, first+1)
				}
			case 1:
				want = owned(&m.reserved, first, n) && m.free64(first, n)
				if err = s.Free(at); want {
					fill(&m.reserved, first, n, 0)
				}
			case 2, 3:
				want = m.mappable(first, n)
				if _, err = s.Map(at, abi.NewHandle(abi.KindAllocation, 1)); want {
					fill(&m.mapped, first, n, first+1)
				}
			case 4:
				var found []*Mapping
				want = m.whole(first, n)
				if found, err = s.Whole(at); want {
					s.Unmap(found)
					fill(&m.mapped, first, n, 0)
				}
			}
			if want != (err == nil) || err != nil && !errors.Is(err, abi.InvalidValue) {
				t.Fatalf("seed %d, step %d, chunks %d+%d: %v, want allowed: %v", seed, step, first, n, err, want)
			}
			check(t, s, m)
		}
	}
}

// free64 reports whether nothing is mapped in a span.
func (m *model) free64(first, n int) bool {
	for i := first; i < first+n; i++ {
		if m.mapped[i] != 0 {
			return false
		}
	}
	return true
}

func check(t *testing.T, s *Space, m *model) {
	t.Helper()
	for i := range 64 {
		at := chunks(i, 1)
		found := s.At(at.Address + 5)
		if (found != nil) != (m.mapped[i] != 0) || found != nil && found.Address != chunks(m.mapped[i]-1, 0).Address {
			t.Fatalf("chunk %d: %v, want %d", i, found, m.mapped[i]-1)
		}
		covered := i+2 <= 64 && m.mapped[i] != 0 && m.mapped[i+1] != 0 && m.reserved[i] == m.reserved[i+1]
		if got := s.Covers(gpu.Range{Address: at.Address + 100, Bytes: chunk}); got != covered {
			t.Fatalf("Covers at chunk %d = %v", i, got)
		}
	}
}

func TestReserve(t *testing.T) {
	s := New(window(), nil)
	first, err := s.Reserve(1, 3*chunk-4096, 0, 0)
	if err != nil || first.Address != base+1<<40 || first.Bytes != 3*chunk-4096 {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := s.Reserve(1, chunk, 0, first.Address) // taken, so another address is used
	if err != nil || second.Address == first.Address {
		t.Fatalf("%+v, %v", second, err)
	}
	aligned, err := s.Reserve(0, chunk, 8*chunk, 0)
	if err != nil || aligned.Address%(8*chunk) != 0 {
		t.Fatalf("%+v, %v", aligned, err)
	}
	requested, err := s.Reserve(1, chunk, 0, base+10*chunk) // a free address in the other GPU's window
	if err != nil || requested.Address != base+10*chunk {
		t.Fatalf("%+v, %v", requested, err)
	}
	for _, c := range []struct {
		name                  string
		bytes, align, request uint64
		want                  abi.Result
	}{
		{"zero bytes", 0, 0, 0, abi.InvalidValue},
		{"odd bytes", 4097, 0, 0, abi.InvalidValue},
		{"odd alignment", chunk, 3 * chunk, 0, abi.InvalidValue},
		{"odd address", chunk, 0, 12345, abi.InvalidValue},
		{"too much", 65 * chunk, 0, 0, abi.OutOfMemory},
		{"far too much", 1 << 63, 0, 0, abi.OutOfMemory},
		{"huge alignment", chunk, 1 << 60, 0, abi.OutOfMemory},
	} {
		if _, err := s.Reserve(0, c.bytes, c.align, c.request); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestReserveImport checks that memory of other processes finds addresses although the program has
// reserved all it can.
func TestReserveImport(t *testing.T) {
	s := New([]gpu.Range{chunks(0, 60)}, []gpu.Range{chunks(60, 4)})
	first, err := s.ReserveImport(0, chunk)
	if err != nil || first != chunks(0, 1) {
		t.Errorf("%+v, %v", first, err)
	}
	all, err := s.Reserve(0, 59*chunk, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reserve(0, chunk, 0, base+60*chunk); !errors.Is(err, abi.OutOfMemory) {
		t.Errorf("Reserve in the guests' range: got %v, want OutOfMemory", err)
	}
	second, err := s.ReserveImport(0, 3*chunk)
	if err != nil || second != chunks(60, 3) {
		t.Errorf("%+v, %v", second, err)
	}
	if _, err := s.ReserveImport(0, 2*chunk); !errors.Is(err, abi.OutOfMemory) {
		t.Errorf("ReserveImport beyond the range: got %v, want OutOfMemory", err)
	}
	if err := errors.Join(s.Free(second), s.ReserveAt(chunks(61, 2)), s.Free(all.Range), s.Free(first)); err != nil {
		t.Error(err)
	}
	if err := s.ReserveAt(chunks(60, 2)); !errors.Is(err, abi.InvalidValue) {
		t.Errorf("taken range: got %v, want InvalidValue", err)
	}
}
