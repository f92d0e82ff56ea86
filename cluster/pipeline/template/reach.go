package template

import "sort"

// band is the layers at which a cut may have a point behind so many GPUs: layers low..high.
type band struct {
	low, high int
	at        int // where the band's points begin among those of all bands

	begins, full, fullEnd int // where its part of slots.begins and slots.full begins, and ends
}

// reach computes how far the first GPUs reach, whatever is behind them, and returns how far all of
// them do.
func (c *slots) reach() int {
	clear(c.hints)
	for used := 1; used <= c.gpus; used++ {
		c.furthest[used] = 0
		for i, width := range c.widths {
			if c.onOneNode(used, width) {
				c.hints[i] = c.fill(c.furthest[used-width], width, c.fewest[c.gpus-used]+1, c.hints[i])
				c.furthest[used] = max(c.furthest[used], c.hints[i])
			}
		}
	}
	return c.furthest[c.gpus]
}

// fill returns where a stage from a layer on ends at most; it is near a hint.
func (c *slots) fill(from, width, inFlight, hint int) int {
	to := max(from, hint)
	if !c.allowed(from, to, width, inFlight) {
		return from - 1 + sort.Search(to-from, func(n int) bool { return !c.allowed(from, from+n, width, inFlight) })
	}
	for to < c.Profile.Len() && c.allowed(from, to+1, width, inFlight) {
		to++
	}
	return to
}

// allowed reports whether a stage is fast enough and fits.
func (c *slots) allowed(from, to, width, inFlight int) bool {
	return c.Profile.Time(from, to, width) <= c.high && c.holds(from, to, width, inFlight)
}

// reachBack computes the first layer that may be behind so many GPUs, if all layers from it on fit
// on the other ones.
func (c *slots) reachBack() {
	for i := range c.hints {
		c.hints[i] = c.Profile.Len()
	}
	c.nearest[c.gpus] = c.Profile.Len()
	for used := c.gpus - 1; used >= 0; used-- {
		c.nearest[used] = c.Profile.Len()
		for i, width := range c.widths {
			if end := used + width; end <= c.gpus && c.onOneNode(end, width) {
				c.hints[i] = c.fillBack(c.nearest[end], width, c.fewest[c.gpus-end]+1, c.hints[i])
				c.nearest[used] = min(c.nearest[used], c.hints[i])
			}
		}
	}
}

// fillBack returns where a stage before a layer begins at least; it is near a hint.
func (c *slots) fillBack(to, width, inFlight, hint int) int {
	from := min(to, hint)
	if !c.allowed(from, to, width, inFlight) {
		return from + 1 + sort.Search(to-from-1, func(n int) bool { return c.allowed(from+1+n, to, width, inFlight) })
	}
	for from > 0 && c.allowed(from-1, to, width, inFlight) {
		from--
	}
	return from
}

// layOut computes the bands of all points that reach and reachBack allow.
func (c *slots) layOut() {
	c.reachBack()
	c.points = 0
	for used := range c.bands {
		c.bands[used] = band{
			low: max(c.nearest[used], c.fewest[used]), high: min(c.furthest[used], c.Profile.Len()-c.fewest[c.gpus-used]),
			at: c.points,
		}
		c.points += max(0, c.bands[used].high-c.bands[used].low+1)
	}
}

// spans are, for stages of one width, how far they may extend.
type spans struct {
	end    []int // by first layer: where a stage ends at most
	begin  []int // by last layer: where a stage begins at least
	strict []int // where one faster than high begins at least
	slow   []int // where one no faster than low begins at most; -1 for nowhere
}

// measure computes how far stages may extend.
func (c *slots) measure() {
	for i, width := range c.widths {
		c.spans[i].measure(c, width)
	}
}

// measure computes how far stages of a width may extend. The ends move with the beginnings.
func (s *spans) measure(c *slots, width int) {
	layers := c.Profile.Len()
	if s.end == nil {
		all := make([]int, 4*(layers+1))
		for i, each := range []*[]int{&s.end, &s.begin, &s.strict, &s.slow} {
			*each = all[i*(layers+1) : (i+1)*(layers+1)]
		}
	}
	begin, strict, slow := 0, 0, -1
	for to := range layers + 1 {
		for begin < to && !c.allowed(begin, to, width, 1) {
			s.end[begin] = to - 1
			begin++
		}
		for strict = max(strict, begin); strict < to && c.Profile.Time(strict, to, width) >= c.high; {
			strict++
		}
		for slow+1 < to && c.Profile.Time(slow+1, to, width) >= c.low {
			slow++
		}
		s.begin[to], s.strict[to], s.slow[to] = begin, strict, slow
	}
	for ; begin <= layers; begin++ {
		s.end[begin] = layers
	}
}
