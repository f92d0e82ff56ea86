package template

import "slices"

// rests are lower bounds of what the stages before a point cost: those of the same dynamic program
// from the other side, without regard to memory. They are of all points of all bands.
type rests struct {
	before  []int64 // if all of them are before the slowest stage
	slowest []int64 // if the slowest is one of them

	// paces are, by width, the sums of the layers' times. The difference of two is at most the time
	// of a stage, and less by a nanosecond at most.
	paces [][]int64
	// windows of the beginnings of stages: before the slowest, behind it, and the slowest itself.
	early, late, slow window
}

func (r *rests) init(c *slots) {
	for _, width := range c.widths {
		paces := make([]int64, c.Profile.Len()+1)
		for layer := range paces {
			// Time rounds up; a point's pace rounds down.
			paces[layer] = c.Profile.Time(0, layer, width)
			if width > 1 && c.Profile.Time(0, layer, 1)%int64(width) != 0 {
				paces[layer]--
			}
		}
		r.paces = append(r.paces, paces)
	}
}

// maxCost bounds products of paces.
const maxCost = 1 << 60

// restsAt returns the bounds of a point.
func (c *slots) restsAt(used, layer int) (before, slowest int64) {
	b := &c.bands[used]
	return c.before[b.at+layer-b.low], c.rests.slowest[b.at+layer-b.low]
}

// whole returns the bound of all stages.
func (c *slots) whole() int64 {
	_, slowest := c.restsAt(c.gpus, c.Profile.Len())
	return slowest
}

// bound computes the bounds of all points; ok is false if there is no cut, or no time is left.
func (c *slots) bound() (ok bool) {
	c.measure()
	c.layOut()
	c.before, c.rests.slowest = impossibles(c.before, c.points), impossibles(c.rests.slowest, c.points)
	if first, last := c.bands[0], c.bands[c.gpus]; first.low > 0 || last.low > last.high {
		return false
	}
	c.before[0] = 0
	for used := 1; used <= c.gpus; used++ {
		if c.ctx.Err() != nil {
			return false
		}
		for i, width := range c.widths {
			if c.onOneNode(used, width) {
				c.extend(used, i)
			}
		}
	}
	return true
}

// impossibles returns n bounds of points that cannot be reached; it uses the memory of old ones.
func impossibles(old []int64, n int) []int64 {
	old = slices.Grow(old[:0], n)[:n]
	for i := range old {
		old[i] = impossible
	}
	return old
}

// extend improves the bounds of the points behind so many GPUs by those before a stage of a width.
// A stage's cost is a difference of two paces. So the best beginning is the least of a window that
// slides along the layers.
func (c *slots) extend(used, i int) {
	from, to := &c.bands[used-c.widths[i]], &c.bands[used]
	if from.low > from.high {
		return
	}
	s, paces, steep := &c.spans[i], c.paces[i], c.steepness(used)
	if steep > maxCost/(paces[c.Profile.Len()]+1) {
		steep = 0 // also a bound, and without overflow
	}
	c.early.clear()
	c.late.clear()
	c.slow.clear()
	next, slow := from.low, from.low
	for layer := to.low; layer <= to.high; layer++ {
		for ; next < layer && next <= from.high; next++ {
			before, slowest := c.before[from.at+next-from.low], c.rests.slowest[from.at+next-from.low]
			c.early.push(next, before, paces[next])
			c.late.push(next, slowest, 2*paces[next])
		}
		for ; slow <= s.slow[layer] && slow <= from.high; slow++ {
			c.slow.push(slow, c.before[from.at+slow-from.low], steep*paces[slow])
		}
		at := to.at + layer - to.low
		c.before[at] = min(c.before[at], c.early.least(s.begin[layer], paces[layer]))
		c.rests.slowest[at] = min(
			c.rests.slowest[at],
			c.late.least(s.strict[layer], 2*paces[layer]-c.low),
			c.slow.least(s.begin[layer], steep*(paces[layer]-c.low)+int64(c.microbatches)*c.low),
		)
	}
}

// window has the beginnings of stages that are not worse than all later ones.
type window struct {
	at   []int
	cost []int64
	head int
}

func (w *window) clear() { w.at, w.cost, w.head = w.at[:0], w.cost[:0], 0 }

// push adds a beginning, with the cost before it and its pace.
func (w *window) push(at int, cost, pace int64) {
	if cost >= impossible {
		return
	}
	n := len(w.cost)
	for n > w.head && w.cost[n-1] >= cost-pace {
		n--
	}
	w.at, w.cost = append(w.at[:n], at), append(w.cost[:n], cost-pace)
}

// least returns the least cost of a stage that begins at a layer or behind it, and ends at a pace.
func (w *window) least(from int, pace int64) int64 {
	for w.head < len(w.at) && w.at[w.head] < from {
		w.head++
	}
	if w.head == len(w.at) {
		return impossible
	}
	return w.cost[w.head] + pace
}
