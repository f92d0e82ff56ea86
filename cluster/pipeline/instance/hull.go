package instance

// hull is an upper bound of what pipelines of given sizes can do together: the least concave
// function that is at least the capacities. The sum of a concave function over pipelines is largest
// if they are equal, so one number bounds every combination.
type hull struct {
	sizes []int // of its corners
	caps  []int
}

// hullOf returns the hull of capacities of consecutive sizes. Sizes with a capacity below 1 cannot
// be used.
func hullOf(smallest int, caps []int) hull {
	h := hull{make([]int, 0, len(caps)), make([]int, 0, len(caps))}
	for i, c := range caps {
		if c < 1 {
			continue
		}
		for len(h.sizes) > 1 && !h.corner(smallest+i, c) {
			h.sizes, h.caps = h.sizes[:len(h.sizes)-1], h.caps[:len(h.caps)-1]
		}
		h.sizes, h.caps = append(h.sizes, smallest+i), append(h.caps, c)
	}
	return h
}

// corner reports whether the last corner remains one when another point is added.
func (h hull) corner(size, c int) bool {
	a, b := len(h.sizes)-2, len(h.sizes)-1
	return (h.caps[b]-h.caps[a])*(size-h.sizes[b]) > (c-h.caps[b])*(h.sizes[b]-h.sizes[a])
}

// bound returns the most that pipelines on so many nodes in all can do; ok is false if the sizes do
// not allow that many nodes.
func (h hull) bound(pipelines, nodes int) (all int, ok bool) {
	last := len(h.sizes) - 1
	if last < 0 || nodes < pipelines*h.sizes[0] || nodes > pipelines*h.sizes[last] {
		return 0, false
	}
	at := 0
	for at < last && nodes > pipelines*h.sizes[at+1] {
		at++
	}
	if at == last {
		return pipelines * h.caps[last], true
	}
	over := (h.caps[at+1] - h.caps[at]) * (nodes - pipelines*h.sizes[at])
	return pipelines*h.caps[at] + floorDivide(over, h.sizes[at+1]-h.sizes[at]), true
}

// floorDivide returns a/b, rounded down.
func floorDivide(a, b int) int {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}
