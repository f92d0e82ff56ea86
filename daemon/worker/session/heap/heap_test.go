package heap

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// chunkMap is a Backing that tracks every single chunk and fails beyond a limit.
type chunkMap struct {
	t      *testing.T
	mapped map[uint64]bool
	limit  int
}

func (c *chunkMap) Map(r gpu.Range) error {
	if r.Address%gpu.ChunkBytes != 0 || r.Bytes%gpu.ChunkBytes != 0 || r.Bytes == 0 {
		c.t.Errorf("map of %#x+%#x is not whole chunks", r.Address, r.Bytes)
	}
	if len(c.mapped)+int(r.Bytes/gpu.ChunkBytes) > c.limit {
		return abi.OutOfMemory
	}
	for a := r.Address; a < r.End(); a += gpu.ChunkBytes {
		if c.mapped[a] {
			c.t.Errorf("chunk %#x mapped twice", a)
		}
		c.mapped[a] = true
	}
	return nil
}

func (c *chunkMap) Unmap(r gpu.Range) error {
	for a := r.Address; a < r.End(); a += gpu.ChunkBytes {
		if !c.mapped[a] {
			c.t.Errorf("chunk %#x unmapped but not mapped", a)
		}
		delete(c.mapped, a)
	}
	return nil
}

const base = 0x3000_0000_0000

var window = gpu.Range{Address: base, Bytes: 64 * gpu.ChunkBytes}

// randomBytes returns sizes that are often near the limits of the two size classes.
func randomBytes(r *rand.Rand) uint64 {
	switch r.IntN(4) {
	case 0:
		return 1 + r.Uint64N(2000)
	case 1:
		return SmallBytes - 600 + r.Uint64N(1200)
	case 2:
		return gpu.ChunkBytes - 2 + r.Uint64N(4)
	}
	return 1 + r.Uint64N(5*gpu.ChunkBytes)
}

// TestHeapAgainstModel runs random requests and checks each answer against a plain list of ranges.
func TestHeapAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		chunks := &chunkMap{t: t, mapped: map[uint64]bool{}, limit: 40}
		h := New(window, chunks)
		var model []gpu.Range
		for range 3000 {
			if len(model) > 0 && r.IntN(100) < 48 {
				at := r.IntN(len(model))
				if err := h.Free(model[at].Address); err != nil {
					t.Fatalf("seed %d: free %#x: %v", seed, model[at].Address, err)
				}
				model = slices.Delete(model, at, at+1)
			} else if got, err := allocateSome(h, r); err == nil {
				checkNew(t, got, model, chunks)
				model = append(model, got)
			} else if !errors.Is(err, abi.OutOfMemory) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			checkUsage(t, h, model, chunks)
		}
		for _, m := range model {
			if err := h.Free(m.Address); err != nil {
				t.Fatal(err)
			}
		}
		h.Trim()
		if len(chunks.mapped) != 0 {
			t.Fatalf("seed %d: %d chunks left after everything was freed", seed, len(chunks.mapped))
		}
		if whole, err := h.Allocate(40 * gpu.ChunkBytes); err != nil || whole.Address != base {
			t.Fatalf("seed %d: addresses were not joined: %#x, %v", seed, whole.Address, err)
		}
	}
}

func allocateSome(h *Heap, r *rand.Rand) (gpu.Range, error) {
	if r.IntN(5) == 0 {
		return h.AllocateHome((1 + r.Uint64N(4)) * gpu.ChunkBytes)
	}
	return h.Allocate(randomBytes(r))
}

// TestHomesAreApart checks that the addresses of allocations do not depend on homes, as long as
// both parts have space.
func TestHomesAreApart(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	wide := gpu.Range{Address: base, Bytes: 1 << 40}
	with, without := New(wide, freeBacking{}), New(wide, freeBacking{})
	var live, homes []gpu.Range
	for range 5000 {
		switch {
		case len(homes) > 0 && r.IntN(4) == 0:
			at := r.IntN(len(homes))
			if err := with.Free(homes[at].Address); err != nil {
				t.Fatal(err)
			}
			homes = slices.Delete(homes, at, at+1)
		case r.IntN(2) == 0:
			home, err := with.AllocateHome((1 + r.Uint64N(9)) * gpu.ChunkBytes)
			if err != nil {
				t.Fatal(err)
			}
			homes = append(homes, home)
		case len(live) > 0 && r.IntN(2) == 0:
			at := r.IntN(len(live))
			if err := errors.Join(with.Free(live[at].Address), without.Free(live[at].Address)); err != nil {
				t.Fatal(err)
			}
			live = slices.Delete(live, at, at+1)
		default:
			bytes := randomBytes(r)
			a, err := with.Allocate(bytes)
			b, failed := without.Allocate(bytes)
			if err != nil || failed != nil || a != b {
				t.Fatalf("%#x, %v with homes; without %#x, %v", a.Address, err, b.Address, failed)
			}
			live = append(live, a)
		}
	}
	if len(homes) == 0 || len(live) == 0 {
		t.Error("the test compared nothing")
	}
}

func checkNew(t *testing.T, got gpu.Range, model []gpu.Range, chunks *chunkMap) {
	t.Helper()
	if got.Address%Align != 0 || !window.Contains(got) {
		t.Fatalf("%#x+%#x is misplaced", got.Address, got.Bytes)
	}
	for _, m := range model {
		if got.Address < m.End() && m.Address < got.End() {
			t.Fatalf("%#x+%#x overlaps %#x+%#x", got.Address, got.Bytes, m.Address, m.Bytes)
		}
	}
	for a := got.Address &^ (gpu.ChunkBytes - 1); a < got.End(); a += gpu.ChunkBytes {
		if !chunks.mapped[a] {
			t.Fatalf("%#x+%#x is not backed at %#x", got.Address, got.Bytes, a)
		}
	}
}

func checkUsage(t *testing.T, h *Heap, model []gpu.Range, chunks *chunkMap) {
	t.Helper()
	var sum uint64
	for _, m := range model {
		sum += m.Bytes
	}
	allocated, backed := h.Usage()
	if allocated != sum || backed != uint64(len(chunks.mapped))*gpu.ChunkBytes {
		t.Fatalf("usage %d, %d; want %d, %d", allocated, backed, sum, len(chunks.mapped)*gpu.ChunkBytes)
	}
}

func TestHeapRecycles(t *testing.T) {
	h := New(window, &chunkMap{t: t, mapped: map[uint64]bool{}, limit: 64})
	first, err := h.Allocate(3 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := h.Free(first.Address); err != nil {
			t.Fatal(err)
		}
		again, err := h.Allocate(3 << 20)
		if err != nil || again != first {
			t.Fatalf("got %#x, %v, want %#x again", again.Address, err, first.Address)
		}
	}
}

func TestHeapRefuses(t *testing.T) {
	h := New(window, &chunkMap{t: t, mapped: map[uint64]bool{}, limit: 4})
	got, _ := h.Allocate(1000)
	cases := []struct {
		name string
		do   func() error
		want abi.Result
	}{
		{"zero bytes", func() error { _, err := h.Allocate(0); return err }, abi.InvalidValue},
		{"more than the device has", func() error { _, err := h.Allocate(5 * gpu.ChunkBytes); return err }, abi.OutOfMemory},
		{"more than the window", func() error { _, err := h.Allocate(65 * gpu.ChunkBytes); return err }, abi.OutOfMemory},
		{"more than can be counted", func() error { _, err := h.Allocate(1<<64 - 1); return err }, abi.OutOfMemory},
		{"free inside", func() error { return h.Free(got.Address + 512) }, abi.InvalidValue},
		{"free twice", func() error { _ = h.Free(got.Address); return h.Free(got.Address) }, abi.InvalidValue},
	}
	for _, c := range cases {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := h.Allocate(4 * gpu.ChunkBytes); err != nil {
		t.Errorf("Allocate after failed calls: %v", err)
	}
}

func TestHeapFind(t *testing.T) {
	h := New(window, &chunkMap{t: t, mapped: map[uint64]bool{}, limit: 64})
	got, _ := h.Allocate(1000)
	for _, c := range []struct {
		address uint64
		found   bool
	}{{got.Address - 1, false}, {got.Address, true}, {got.Address + 999, true}, {got.Address + 1000, false}} {
		if _, found := h.Find(c.address); found != c.found {
			t.Errorf("find %#x: %v", c.address, found)
		}
	}
}

func BenchmarkHeap(b *testing.B) {
	h := New(gpu.Range{Address: base, Bytes: 1 << 40}, freeBacking{})
	kept := make([]uint64, 4096)
	r := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		at := r.IntN(len(kept))
		if kept[at] != 0 {
			_ = h.Free(kept[at])
		}
		got, _ := h.Allocate(randomBytes(r))
		kept[at] = got.Address
	}
}

type freeBacking struct{}

func (freeBacking) Map(gpu.Range) error   { return nil }
func (freeBacking) Unmap(gpu.Range) error { return nil }

// keeping is a Backing in which some chunks are not yet reclaimed. kept fails only MapWhole,
// foreign fails both.
type keeping struct {
	chunkMap
	kept, foreign uint64
}

func (k *keeping) Map(r gpu.Range) error {
	if k.foreign >= r.Address && k.foreign < r.End() {
		return gpu.ErrNotReclaimed
	}
	return k.chunkMap.Map(r)
}

func (k *keeping) MapWhole(r gpu.Range) error {
	if k.kept >= r.Address && k.kept < r.End() {
		return gpu.ErrNotReclaimed
	}
	return k.Map(r)
}

// TestKept checks that an allocation avoids chunks that are not yet reclaimed, and uses them again
// later.
func TestKept(t *testing.T) {
	k := &keeping{chunkMap: chunkMap{t: t, mapped: map[uint64]bool{}, limit: 64}}
	h := New(window, k)
	place := func(allocate func(uint64) (gpu.Range, error)) uint64 {
		t.Helper()
		r, err := allocate(2 * gpu.ChunkBytes)
		if err == nil {
			err = h.Free(r.Address)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.Address
	}
	memory, home := place(h.Allocate), place(h.AllocateHome)
	k.kept = home
	if at := place(h.AllocateHome); at == home {
		t.Error("a home was placed at a chunk that is not reclaimed")
	}
	k.kept = memory
	if at := place(h.Allocate); at != memory {
		t.Errorf("got %#x, want the chunk that only homes must avoid", at)
	}
	k.foreign = memory + gpu.ChunkBytes
	if at := place(h.Allocate); at == memory {
		t.Error("memory was placed at another process's chunk")
	}
	k.kept, k.foreign = 0, 0
	if place(h.Allocate) != memory || place(h.AllocateHome) != home {
		t.Error("addresses differ after all chunks were reclaimed")
	}
	if len(k.mapped) != 0 {
		t.Errorf("%d chunks are left", len(k.mapped))
	}
}
