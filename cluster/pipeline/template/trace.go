package template

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// trace follows the optimal way to its stages; slowest is the one that counted as that.
func (c *slots) trace() (found []pipeline.Stage, slowest int) {
	all := c.of(0, 0, true)
	at := point{way: all[len(all)-1], through: true}
	for at.used < c.gpus {
		s, next := c.stageAt(at)
		found = append(found, pipeline.Stage{
			From: s.from, To: s.to, GPUs: s.width, Node: at.used / c.GPUsPerNode,
			Time: c.Profile.Time(s.from, s.to, s.width),
		})
		if at.through && !next.through {
			slowest = len(found) - 1
		}
		at = next
	}
	return found, slowest
}

// point is a position on an optimal way: the layers from one on are placed on the GPUs behind those
// that are used.
type point struct {
	used, layer int
	way         way
	through     bool // the slowest stage is behind it
}

// stageAt returns the narrowest and then shortest stage with which an optimal way goes on.
func (c *slots) stageAt(at point) (s placed, next point) {
	for i, width := range c.widths {
		if at.used+width > c.gpus || !c.onOneNode(at.used+width, width) {
			continue
		}
		for to := at.layer + 1; to <= c.spans[i].end[at.layer]; to++ {
			s := placed{at.layer, to, width}
			if next, goes := c.goesOn(at, s); goes {
				return s, next
			}
		}
	}
	panic("a way leads nowhere")
}

// goesOn reports whether a way has s as its first stage, and where it goes on.
func (c *slots) goesOn(at point, s placed) (next point, goes bool) {
	time, end := c.Profile.Time(s.from, s.to, s.width), at.used+s.width
	leads := func(through bool, cost int64) bool {
		next = point{end, s.to, way{at.way.cost - cost, at.way.stages - c.counted}, through}
		return next.way.stages < c.maxInFlight(s) && slices.Contains(c.of(end, s.to, through), next.way)
	}
	if at.through {
		goes = leads(true, time) || time >= c.low && leads(false, c.slowest(end, time))
	} else {
		goes = time < c.high && leads(false, 2*time-c.low)
	}
	return next, goes
}
