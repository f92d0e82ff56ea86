package soft

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// parked are the streams of the one lane of deterministic mode whose next item waits for what may come later in the lane, or from
// outside: a word that has not its value yet, an event in a stream that is parked itself. The others go on meanwhile. Only the lane's
// goroutine knows of it.
type parked struct {
	streams []*Stream // as they came
	items   map[*Stream][]item
}

// do runs an item, unless its stream is parked or must be now, and then those that wait no longer.
func (p *parked) do(it *item) {
	held := p.items[it.stream]
	if len(held) == 0 && it.ready() {
		it.do()
		p.look()
		return
	}
	if len(held) == 0 {
		p.streams = append(p.streams, it.stream)
	}
	if p.items == nil {
		p.items = map[*Stream][]item{}
	}
	p.items[it.stream] = append(held, *it)
}

// look lets go on who waits no longer, until nobody can.
func (p *parked) look() {
	for again := true; again; {
		again = false
		p.streams = slices.DeleteFunc(p.streams, func(s *Stream) bool {
			items := p.items[s]
			for len(items) > 0 && items[0].ready() {
				items[0].do()
				items[0] = item{}
				items, again = items[1:], true
			}
			p.items[s] = items
			if len(items) == 0 {
				delete(p.items, s)
			}
			return len(items) == 0
		})
	}
}

// waiting reports, after a look some time later, whether somebody still waits.
func (p *parked) waiting() bool {
	if p == nil || len(p.streams) == 0 {
		return false
	}
	time.Sleep(lookEvery)
	p.look()
	return len(p.streams) > 0
}

func (it *item) do() {
	it.stream.run(it)
	it.stream.finished()
}

// ready reports whether an item can be run without waiting for anybody else. Of operations on words it does those that come before
// the first that waits. What waits inside a graph is not looked at.
func (it *item) ready() bool {
	c := it.stream.context
	if c.stopping() {
		return true // and is passed over
	}
	if it.replay != nil {
		return it.replay.before == nil || it.replay.before.done.Load()
	}
	switch work := it.work.(type) {
	case gpu.Await:
		return it.mark == nil || it.mark.done.Load()
	case gpu.MemoryOps:
		rest, err := c.words(work.Ops)
		it.work = gpu.MemoryOps{Ops: rest}
		return err != nil || len(rest) == 0 // it fails again when it is run
	}
	return true
}
