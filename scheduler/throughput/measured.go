package throughput

import (
	"cmp"
	"slices"
)

// measured is measured throughput, by type of GPU, on one node or on several.
type measured struct {
	reference string // the type that was named first
	curves    map[layout][]point
}

// layout is what throughput is measured on.
type layout struct {
	gpuType string
	spread  bool // over several nodes
}

// point is a throughput on a number of GPUs.
type point struct {
	gpus int
	rate float64
}

// add adds a point; it returns false if there already is one.
func (m *measured) add(at layout, p point) bool {
	i, there := slices.BinarySearchFunc(m.curves[at], p, func(a, b point) int { return cmp.Compare(a.gpus, b.gpus) })
	if !there {
		m.curves[at] = slices.Insert(m.curves[at], i, p)
	}
	return !there
}

// curve returns the points of the nearest measured layout; nil if the type was not measured at all.
func (m *measured) curve(gpuType string, nodes int) []point {
	if points := m.curves[layout{gpuType, nodes > 1}]; points != nil {
		return points
	}
	return m.curves[layout{gpuType, nodes <= 1}]
}

// rate returns the throughput on a type; on the reference type if it is "".
func (m *measured) rate(gpuType string, nodes, gpus int) float64 {
	return interpolate(m.curve(cmp.Or(gpuType, m.reference), nodes), gpus)
}

// ratio returns the speed of a type relative to the reference type; known is false if it was not
// measured.
func (m *measured) ratio(gpuType string, nodes, gpus int) (ratio float64, known bool) {
	points := m.curve(gpuType, nodes)
	if points == nil {
		return 0, false
	}
	return interpolate(points, gpus) / m.rate("", nodes, gpus), true
}

// interpolate draws straight lines through the points. With fewer GPUs than measured, speed is
// proportional; with more it stays constant, because no growth was measured.
func interpolate(points []point, gpus int) float64 {
	i, there := slices.BinarySearchFunc(points, gpus, func(p point, n int) int { return cmp.Compare(p.gpus, n) })
	switch {
	case there:
		return points[i].rate
	case i == len(points):
		return points[i-1].rate
	}
	var before point // 0 on 0 GPUs
	if i > 0 {
		before = points[i-1]
	}
	part := float64(gpus-before.gpus) / float64(points[i].gpus-before.gpus)
	return before.rate + part*(points[i].rate-before.rate)
}
