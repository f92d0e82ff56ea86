package code

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/hijack/abi"
)

// modelDriver places code as drivers do: in chunks of its own, small things together.
type modelDriver struct{ heap *heap.Heap }

type chunkless struct{}

func (chunkless) Map(gpu.Range) error   { return nil }
func (chunkless) Unmap(gpu.Range) error { return nil }

func newModelDriver() *modelDriver {
	return &modelDriver{heap.New(gpu.DefaultWindow(0, 1), chunkless{})}
}

// come loads code of a size and returns where it lies.
func (d *modelDriver) come(t *testing.T, bytes uint64) uint64 {
	r, err := d.heap.Allocate(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return r.Address
}

// TestLoadsAgain makes code come and go at random, writes down how, and has another driver repeat
// that: what is still there lies where it did.
func TestLoadsAgain(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		driver, l := newModelDriver(), &loads{}
		living := map[*Module]uint64{} // addresses
		sizes := map[abi.Handle]uint64{}
		var order []*Module
		for n := range 300 {
			if len(order) > 0 && r.IntN(5) < 2 {
				at := r.IntN(len(order))
				m := order[at]
				order = append(order[:at], order[at+1:]...)
				if err := l.unloaded(m.load, func() error { return driver.heap.Free(living[m]) }); err != nil {
					t.Fatal(err)
				}
				delete(living, m)
				continue
			}
			bytes := 1 + r.Uint64N([]uint64{300, 60000, 3 << 20}[r.IntN(3)])
			m := &Module{loads: l, object: &object.Object{ID: uint64(abi.NewHandle(abi.KindModule, uint32(n+1)))}}
			sizes[m.object.Handle()] = bytes
			if err := l.loaded(m, func() error { living[m] = driver.come(t, bytes); return nil }); err != nil {
				t.Fatal(err)
			}
			m.setImage(object.NewImage([]byte(fmt.Sprint(bytes))))
			order = append(order, m)
		}
		k := core.NewEncoder(0, "")
		steps := l.Save(k)
		again, came := newModelDriver(), map[int]uint64{}
		found := map[abi.Handle]uint64{}
		for i, step := range steps {
			if step.Unloads > 0 {
				if err := again.heap.Free(came[step.Unloads]); err != nil {
					t.Fatal(err)
				}
				continue
			}
			bytes := sizes[step.Module]
			if step.Module == 0 {
				if _, err := fmt.Sscan(string(k.Out.Images[step.Image]), &bytes); err != nil {
					t.Fatal(err)
				}
			}
			came[i+1] = again.come(t, bytes)
			found[step.Module] = came[i+1]
		}
		for m, address := range living {
			if got := found[m.object.Handle()]; got != address {
				t.Fatalf("seed %d: %v lies at %#x, and was at %#x", seed, m.object.Handle(), got, address)
			}
		}
	}
}

// TestLoadsForget: of what has gone, only so much is remembered, of what is there everything.
func TestLoadsForget(t *testing.T) {
	for _, test := range []struct {
		bytes, different, want int
	}{
		{1, 1 << 20, maxGone},
		{1 << 20, 1 << 20, maxGoneBytes >> 20},
		{1 << 20, 8, maxGone}, // one copy of each
	} {
		l := &loads{}
		nothing := func() error { return nil }
		come := func(content int) *Module {
			m := &Module{loads: l, object: &object.Object{}}
			if err := l.loaded(m, nothing); err != nil {
				t.Fatal(err)
			}
			image := object.NewImage(binary.LittleEndian.AppendUint64(nil, uint64(content)))
			image.Bytes = make([]byte, test.bytes)
			m.setImage(image)
			return m
		}
		const living = 50
		for n := range 2 * maxGone {
			m := come(n % test.different)
			if n < living {
				continue
			}
			if err := l.unloaded(m.load, nothing); err != nil {
				t.Fatal(err)
			}
		}
		here, gone := 0, 0
		for _, x := range l.steps {
			switch {
			case x.loaded():
				here++
			case x.unloads == nil:
				gone++
			}
		}
		if here != living || gone != test.want || len(l.steps) != here+2*gone {
			t.Errorf(
				"%d steps: %d loads are there, %d gone, want %d and %d",
				len(l.steps),
				here,
				gone,
				living,
				test.want,
			)
		}
	}
}
