package pipeline

import "fmt"

// Stage is a run of layers on some GPUs of one of a template's nodes.
type Stage struct {
	From, To int // layers From..To-1
	Node     int // of the template, from 0
	GPUs     int
	Time     int64 // nanoseconds for a microbatch, forward and backward
}

// Template is a cut of a model's layers into stages for a number of nodes.
type Template struct {
	Nodes  int
	Stages []Stage

	// Microbatches is the number for which the cut is optimal: four for each GPU.
	Microbatches int
}

// Cuts returns the first layer of each stage, and the number of layers.
func (t *Template) Cuts() []int {
	cuts := make([]int, 0, len(t.Stages)+1)
	for _, s := range t.Stages {
		cuts = append(cuts, s.From)
	}
	return append(cuts, t.Stages[len(t.Stages)-1].To)
}

// Bottleneck returns the slowest stage, the last of equal ones.
func (t *Template) Bottleneck() int {
	slowest := 0
	for i, s := range t.Stages {
		if s.Time >= t.Stages[slowest].Time {
			slowest = i
		}
	}
	return slowest
}

// Line is a pipeline's time as a function of its microbatches: an iteration of n takes Fixed +
// n·Each.
type Line struct{ Fixed, Each int64 }

// At returns the time of n microbatches.
func (l Line) At(n int) int64 { return l.Fixed + int64(n)*l.Each }

// MaxWithin returns how many microbatches fit into a time; less than 1 if not even one does.
func (l Line) MaxWithin(time int64) int {
	if time < l.Fixed+l.Each {
		return 0
	}
	return int((time - l.Fixed) / l.Each)
}

// Line returns T1 + T2 + T3 of an iteration in the schedule one-forward-one-backward: filling and
// draining, the rounds at the pace of the slowest stage, and the remaining work of the stages
// behind it. It is exact for equal stages, else slightly too low.
func (t *Template) Line() Line {
	k := t.Bottleneck()
	var all, behind int64
	for i, s := range t.Stages {
		all += s.Time
		if i >= k {
			behind += s.Time
		}
	}
	slowest := t.Stages[k].Time
	return Line{Fixed: all + behind + int64(k-len(t.Stages)-1)*slowest, Each: slowest}
}

// Time returns the time of an iteration with Microbatches.
func (t *Template) Time() int64 { return t.Line().At(t.Microbatches) }

// NodeLayers returns the layers that a template's node holds, as runs.
func (t *Template) NodeLayers(node int) (runs [][2]int) {
	for _, s := range t.Stages {
		if s.Node != node {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1][1] == s.From {
			runs[n-1][1] = s.To
			continue
		}
		runs = append(runs, [2]int{s.From, s.To})
	}
	return runs
}

// check returns an error if a template, read from a file, does not match a profile.
func (t *Template) check(p *Profile, gpusPerNode int) error {
	at, node, used := 0, 0, 0
	for i, s := range t.Stages {
		if s.Node == node+1 && used == gpusPerNode {
			node, used = s.Node, 0
		}
		used += s.GPUs
		if s.From != at || s.To <= s.From || s.To > p.Len() || s.Node != node || s.GPUs < 1 || used > gpusPerNode ||
			!p.Measured(s.GPUs) {
			return fmt.Errorf("stage %d of the template for %d nodes is not one of this profile", i, t.Nodes)
		}
		if s.Time != p.Time(s.From, s.To, s.GPUs) {
			return fmt.Errorf(
				"stage %d of the template for %d nodes takes %d ns by the profile, %d ns by the template",
				i,
				t.Nodes,
				p.Time(s.From, s.To, s.GPUs),
				s.Time,
			)
		}
		at = s.To
	}
	if at != p.Len() || node+1 != t.Nodes || used != gpusPerNode {
		return fmt.Errorf("the template for %d nodes does not hold all %d layers on all of its GPUs", t.Nodes, p.Len())
	}
	return nil
}
