package replan

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// relaxation is a lower bound of the bytes of any pipelines on the nodes that are left: at least so
// many pipelines on so many nodes, by prices of nodes and of microbatches in time. It uses nothing
// of this package but the plan.
type relaxation struct {
	plan             *pipeline.Plan
	pipelines, nodes int
	time             int64   // of an iteration at most
	kinds            [][]int // the layers that nodes of a kind hold
	supply           []float64
	prices           []float64
	work             float64 // the price of a microbatch
	sizes            []relaxedSize
}

// relaxedSize is a template: the layers of each place, what each kind lacks, and its microbatches
// in time.
type relaxedSize struct {
	size  int
	bytes [][]float64 // by place and kind
	most  float64
}

// relax returns the relaxation for pipelines that may take so long, as many as given ones and on as
// many nodes.
func relax(before *pipeline.Plan, c Change, sizes []int, time int64) *relaxation {
	r := &relaxation{plan: before, pipelines: len(sizes), nodes: sum(sizes), time: time}
	kinds := map[string]int{}
	had := layersOf(before)
	gone := map[cluster.NodeID]bool{}
	for _, node := range slices.Concat(c.Dead, c.Leaving) {
		gone[node] = true
	}
	for _, node := range append(before.Nodes(), c.Joined...) {
		if gone[node] {
			continue
		}
		text, layers := make([]byte, before.Profile.Len()), []int(nil)
		for layer := range text {
			if had[key{node, layer}] {
				text[layer], layers = 1, append(layers, layer)
			}
		}
		at, known := kinds[string(text)]
		if !known {
			at = len(r.kinds)
			kinds[string(text)] = at
			r.kinds, r.supply = append(r.kinds, layers), append(r.supply, 0)
		}
		r.supply[at]++
	}
	r.prices = make([]float64, len(r.kinds))
	reduce := int64(math.MaxInt64)
	for n := r.pipelines; n <= r.nodes; n++ {
		reduce = min(reduce, before.Profile.AllReduce(n))
	}
	for _, t := range before.Templates {
		s := relaxedSize{size: t.Nodes, most: float64(t.Line().MaxWithin(time - reduce))}
		if s.most < 1 {
			continue
		}
		for place := range t.Nodes {
			var row []float64
			for _, holds := range r.kinds {
				held := map[int]bool{}
				for _, layer := range holds {
					held[layer] = true
				}
				bytes := 0.0
				for _, stage := range t.Stages {
					for layer := stage.From; layer < stage.To && stage.Node == place; layer++ {
						if !held[layer] {
							bytes += float64(before.Profile.Layers[layer].StateBytes)
						}
					}
				}
				row = append(row, bytes)
			}
			s.bytes = append(s.bytes, row)
		}
		r.sizes = append(r.sizes, s)
	}
	return r
}

// bound returns the bound for the present prices, and what the pipelines that attain it use of each
// kind and do of the batch.
func (r *relaxation) bound() (bound float64, used []float64, done float64) {
	values := make([]float64, len(r.sizes))
	picks := make([][]int, len(r.sizes))
	for i, s := range r.sizes {
		values[i] = -r.work * s.most
		for _, row := range s.bytes {
			best, at := math.Inf(1), 0
			for kind, bytes := range row {
				if v := bytes + r.prices[kind]; v < best {
					best, at = v, kind
				}
			}
			values[i] += best
			picks[i] = append(picks[i], at)
		}
	}
	// By pipelines, up to the fewest, and nodes.
	n := r.pipelines
	best, from := make([][]float64, n+1), make([][][2]int, n+1)
	for k := range best {
		best[k], from[k] = make([]float64, r.nodes+1), make([][2]int, r.nodes+1)
		for j := range best[k] {
			best[k][j] = math.Inf(1)
		}
	}
	best[0][0] = 0
	for j := 1; j <= r.nodes; j++ {
		for k := 1; k <= n; k++ {
			for i, s := range r.sizes {
				if s.size > j {
					continue
				}
				for _, before := range []int{k - 1, k} {
					if before == k && k < n {
						continue
					}
					if v := best[before][j-s.size] + values[i]; v < best[k][j] {
						best[k][j], from[k][j] = v, [2]int{i, before}
					}
				}
			}
		}
	}
	used = make([]float64, len(r.kinds))
	for k, j := n, r.nodes; j > 0; {
		f := from[k][j]
		done += r.sizes[f[0]].most
		for _, kind := range picks[f[0]] {
			used[kind]++
		}
		k, j = f[1], j-r.sizes[f[0]].size
	}
	bound = best[n][r.nodes] + r.work*float64(r.plan.Spec.Microbatches)
	for kind, price := range r.prices {
		bound -= price * r.supply[kind]
	}
	return bound, used, done
}

// ascend raises the bound by subgradients, with steps towards a known cost.
func (r *relaxation) ascend(known float64, steps int) (best float64) {
	scale := 1.0
	last := 0
	for step := range steps {
		bound, used, done := r.bound()
		if bound > best {
			best, last = bound, step
		} else if step-last > 20 {
			scale, last = scale*0.6, step
		}
		if best >= known-0.5 {
			return best
		}
		norm := 0.0
		for kind := range used {
			used[kind] -= r.supply[kind]
			if used[kind] > 0 || r.prices[kind] > 0 {
				norm += used[kind] * used[kind]
			}
		}
		slack := (float64(r.plan.Spec.Microbatches) - done) / float64(r.plan.Spec.Microbatches) * float64(r.nodes)
		if slack > 0 || r.work > 0 {
			norm += slack * slack
		}
		if norm == 0 {
			return best
		}
		by := scale * max(1, known-bound) / norm
		for kind := range used {
			r.prices[kind] = max(0, r.prices[kind]+by*used[kind])
		}
		r.work = max(0, r.work+by*slack/float64(r.plan.Spec.Microbatches)*float64(r.nodes))
	}
	return best
}

// TestNearBound compares recoveries of large clusters, whose pipelines are equal as plan make
// mostly makes them, with the bound. The bound itself is too low where few nodes die or the time is
// tight, so one in five may be further away.
func TestNearBound(t *testing.T) {
	r := rand.New(rand.NewSource(9))
	p := model(t, 48)
	near, all := 0, rounds.Of(5, 40)
	for range all {
		plan := planOf(t, p, 1, 6, 24, slices.Repeat([]int{8 + r.Intn(5)}, 16+r.Intn(16))...)
		plan.Spec.Microbatches = 600
		nodes := len(plan.Nodes())
		c := Change{Dead: ids(r.Perm(nodes)[:4+r.Intn(nodes/8)]...)}
		result, sizes := recovered(t, plan, c), publishedSizes(t, plan, c)
		sent := float64(sentBytes(result))
		bound := relax(plan, c, sizes, slowest(plan, sizes)).ascend(sent, 150)
		if sent <= 1.05*bound {
			near++
		} else {
			t.Logf("%v, dead %v: %.0f bytes, the bound is %.0f", sizesOf(plan), c.Dead, sent, bound)
		}
		if time := slowest(plan, sizesOf(result.Plan)); time > slowest(plan, sizes) {
			t.Errorf("%v, dead %v: an iteration takes %d, longer than of the published steps", sizesOf(plan), c.Dead, time)
		}
		sound(t, plan, c, result)
	}
	if 5*near < 4*all {
		t.Errorf("only %d of %d recoveries are within 5 %% of the bound", near, all)
	}
}
