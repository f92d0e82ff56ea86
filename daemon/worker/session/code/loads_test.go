package code

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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

// leave unloads the code at an address.
func (d *modelDriver) leave(t *testing.T, address uint64) {
	if err := d.heap.Free(address); err != nil {
		t.Error(err)
	}
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
				l.unloaded(m.load, func() { driver.leave(t, living[m]) })
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
				again.leave(t, came[step.Unloads])
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
			l.unloaded(m.load, func() {})
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

// TestLoadsDoNotBlock: while the driver loads code, which may take long or wait for work, other
// code can be named, unloaded and saved. Code that is unloaded leaves after the load, in the order
// of the calls.
func TestLoadsDoNotBlock(t *testing.T) {
	l := &loads{}
	module := func(n uint32) *Module {
		return &Module{loads: l, object: &object.Object{ID: uint64(abi.NewHandle(abi.KindModule, n))}}
	}
	first, second, slow := module(1), module(2), module(3)
	for _, m := range []*Module{first, second} {
		if err := l.loaded(m, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	loading, finish, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var order []string // what the driver has done
	go func() {
		over <- l.loaded(slow, func() error {
			close(loading)
			<-finish
			order = append(order, "slow came")
			return nil
		})
	}()
	<-loading
	others := make(chan struct{})
	go func() {
		defer close(others)
		first.setImage(object.NewImage([]byte("first")))
		second.setImage(object.NewImage([]byte("second")))
		l.unloaded(second.load, func() { order = append(order, "second left") })
		l.unloaded(first.load, func() { order = append(order, "first left") })
		if steps := l.Save(core.NewEncoder(0, "")); len(steps) != 2 {
			t.Errorf("%d steps were saved during the load, want 2", len(steps))
		}
	}()
	select {
	case <-others:
	case <-time.After(mostWait):
		t.Fatal("other code waits for the load")
	}
	close(finish)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	slow.setImage(object.NewImage([]byte("slow")))
	if want := []string{"slow came", "second left", "first left"}; !slices.Equal(order, want) {
		t.Errorf("the driver did %q, want %q", order, want)
	}
	var unloads []int
	steps := l.Save(core.NewEncoder(0, ""))
	for _, step := range steps {
		unloads = append(unloads, step.Unloads)
	}
	if want := []int{0, 0, 0, 2, 1}; !slices.Equal(unloads, want) || steps[2].Module != slow.object.Handle() {
		t.Errorf("saved %+v, want three loads, the last of %v, and unloads of 2 and 1", steps, slow.object.Handle())
	}
}

// mostWait is how long a test waits for what must happen; no speed is measured by it.
const mostWait = 2 * time.Minute
