package heap

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// pageMap is a Store that tracks every page and fails beyond a limit.
type pageMap struct {
	t     *testing.T
	pages map[uint64]bool
	limit int
}

func (p *pageMap) Reserve(offset, bytes uint64) error {
	if len(p.pages)+int(bytes/PageBytes) > p.limit {
		return abi.OutOfMemory
	}
	for o := offset; o < offset+bytes; o += PageBytes {
		if p.pages[o] {
			p.t.Errorf("page %#x reserved twice", o)
		}
		p.pages[o] = true
	}
	return nil
}

func (p *pageMap) Punch(offset, bytes uint64) error {
	for o := offset; o < offset+bytes; o += PageBytes {
		if !p.pages[o] {
			p.t.Errorf("page %#x punched but not reserved", o)
		}
		delete(p.pages, o)
	}
	return nil
}

const arenaBase = 0x6000_0000_0000

func TestArenaAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	whole := gpu.Range{Address: arenaBase, Bytes: 256 * PageBytes}
	store := &pageMap{t: t, pages: map[uint64]bool{}, limit: 200}
	a := NewArena(whole, store)
	var model []gpu.Range
	for range 20000 {
		if len(model) > 0 && r.IntN(2) == 0 {
			at := r.IntN(len(model))
			if err := a.Free(model[at].Address); err != nil {
				t.Fatal(err)
			}
			model = slices.Delete(model, at, at+1)
			continue
		}
		got, err := a.Allocate(1 + r.Uint64N(20*PageBytes))
		if errors.Is(err, abi.OutOfMemory) {
			continue
		}
		if err != nil || got.Address%PageBytes != 0 || !whole.Contains(got) {
			t.Fatalf("%#x+%#x, %v", got.Address, got.Bytes, err)
		}
		for _, m := range model {
			if got.Address < m.End() && m.Address < got.End() {
				t.Fatalf("%v overlaps %v", got, m)
			}
		}
		model = append(model, got)
	}
	var pages int
	for _, m := range model {
		pages += int(roundUp(m.Bytes, PageBytes) / PageBytes)
	}
	if len(store.pages) != pages {
		t.Errorf("%d pages reserved, want %d", len(store.pages), pages)
	}
	again := NewArena(whole, &pageMap{t: t, pages: map[uint64]bool{}, limit: 200})
	for _, m := range model {
		if err := again.AllocateAt(m); err != nil {
			t.Errorf("AllocateAt(%#x): %v", m.Address, err)
		}
	}
	if !slices.Equal(slices.Collect(again.Allocations()), slices.Collect(a.Allocations())) || again.Usage() != a.Usage() {
		t.Error("the restored arena differs")
	}
}

func TestArenaRefuses(t *testing.T) {
	a := NewArena(gpu.Range{Address: arenaBase, Bytes: 16 * PageBytes}, &pageMap{t: t, pages: map[uint64]bool{}, limit: 8})
	if _, err := a.Allocate(0); !errors.Is(err, abi.InvalidValue) {
		t.Errorf("zero bytes: got %v, want InvalidValue", err)
	}
	if _, err := a.Allocate(17 * PageBytes); !errors.Is(err, abi.OutOfMemory) {
		t.Errorf("more than the arena: got %v, want OutOfMemory", err)
	}
	if _, err := a.Allocate(9 * PageBytes); !errors.Is(err, abi.OutOfMemory) {
		t.Errorf("full file system: got %v, want OutOfMemory", err)
	}
	if got, err := a.Allocate(8 * PageBytes); err != nil || got.Address != arenaBase {
		t.Errorf("after failed allocations: got %#x, %v", got.Address, err)
	}
	if err := a.Free(arenaBase + PageBytes); !errors.Is(err, abi.InvalidValue) {
		t.Errorf("free inside an allocation: got %v, want InvalidValue", err)
	}
}
