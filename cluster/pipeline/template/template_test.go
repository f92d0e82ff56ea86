package template

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// profileOf returns a profile of layers with the given total times.
func profileOf(t testing.TB, times ...int64) *pipeline.Profile {
	t.Helper()
	var layers []pipeline.Layer
	for i, took := range times {
		layers = append(layers, pipeline.Layer{Name: fmt.Sprint("l", i), Forward: time.Duration(took)})
	}
	p, err := pipeline.NewProfile(layers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func one(t testing.TB, s Search, nodes int) *pipeline.Template {
	t.Helper()
	found, err := s.Templates(context.Background(), nodes, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

func TestWorked(t *testing.T) {
	for _, each := range []struct {
		layers []int64
		nodes  int
		cuts   []int
		time   int64
	}{
		{[]int64{2, 4, 6, 8, 10, 12}, 1, []int{0, 6}, 168},
		{[]int64{2, 4, 6, 8, 10, 12}, 2, []int{0, 4, 6}, 196},
		{[]int64{7, 7, 7, 7, 7, 7}, 2, []int{0, 3, 6}, 9 * 21},
		{[]int64{10, 11, 6, 16, 4}, 3, []int{0, 2, 3, 5}, 262},
	} {
		found := one(t, Search{Profile: profileOf(t, each.layers...), GPUsPerNode: 1}, each.nodes)
		if !slices.Equal(found.Cuts(), each.cuts) || found.Time() != each.time {
			t.Errorf(
				"%v on %d nodes: cuts %v, T %d; want %v, %d",
				each.layers,
				each.nodes,
				found.Cuts(),
				found.Time(),
				each.cuts,
				each.time,
			)
		}
	}
}

// TestRecursive: the published search misses the best cut of the smallest known witness.
func TestRecursive(t *testing.T) {
	r := Recursive{Profile: profileOf(t, 10, 11, 6, 16, 4), GPUsPerNode: 1}
	found, err := r.Template(3)
	if err != nil {
		t.Fatal(err)
	}
	if found.Time() != 267 || !slices.Equal(found.Cuts(), []int{0, 1, 3, 5}) {
		t.Errorf("cuts %v, T %d; the published search gives 0 1 3 5, 267", found.Cuts(), found.Time())
	}
}

// iteration computes T from the paper's formula alone.
func iteration(stages []int64, microbatches int) int64 {
	k := 0
	var all, behind int64
	for i, w := range stages {
		all += w
		if w >= stages[k] {
			k = i
		}
	}
	for _, w := range stages[k:] {
		behind += w
	}
	return all + int64(microbatches-len(stages)+k-1)*stages[k] + behind
}

// bruteForce tries every cut, and with several GPUs every division of them.
type bruteForce struct {
	s            Search
	nodes        int
	microbatches int
	best         int64
}

func (b *bruteForce) try(layer, gpu int, stages []pipeline.Stage) {
	p, all := b.s.Profile, b.nodes*b.s.GPUsPerNode
	if layer == p.Len() || gpu == all {
		if layer == p.Len() && gpu == all {
			b.take(stages)
		}
		return
	}
	for width := 1; width <= b.s.GPUsPerNode-gpu%b.s.GPUsPerNode; width++ {
		if !p.Measured(width) {
			continue
		}
		for to := layer + 1; to <= p.Len(); to++ {
			b.try(to, gpu+width, append(stages, pipeline.Stage{From: layer, To: to, GPUs: width}))
		}
	}
}

func (b *bruteForce) take(stages []pipeline.Stage) {
	var times []int64
	for i, s := range stages {
		var work, reduce, bytes int64
		for _, l := range b.s.Profile.Layers[s.From:s.To] {
			work += int64(l.Forward + l.Backward)
			bytes += l.StateBytes + int64(len(stages)-i)*l.ActivationBytes
			if s.GPUs > 1 {
				reduce += 2 * int64(l.InNode[s.GPUs])
			}
		}
		if b.s.GPUMemoryBytes > 0 && (bytes+int64(s.GPUs)-1)/int64(s.GPUs) > b.s.GPUMemoryBytes {
			return
		}
		times = append(times, int64(math.Ceil(float64(work)/float64(s.GPUs)))+reduce)
	}
	b.best = min(b.best, iteration(times, b.microbatches))
}

// against compares a search with brute force for one number of nodes.
func against(t *testing.T, s Search, nodes int) (feasible bool) {
	t.Helper()
	b := bruteForce{s: s, nodes: nodes, microbatches: PlanningMicrobatches * nodes * s.GPUsPerNode, best: math.MaxInt64}
	b.try(0, 0, nil)
	found := s.best(context.Background(), nodes, nodes)[0]
	switch {
	case b.best == math.MaxInt64 && found != nil:
		t.Fatalf("%d nodes: cuts %v, where brute force finds none", nodes, found.Cuts())
	case b.best == math.MaxInt64:
		return false
	case found == nil:
		t.Fatalf("%d nodes: nothing, where brute force finds %d: %+v", nodes, b.best, s.Profile.Layers)
	case found.Time() != b.best:
		t.Fatalf("%d nodes: T %d, brute force %d: %+v", nodes, found.Time(), b.best, s.Profile.Layers)
	}
	checkShape(t, s, found)
	return true
}

// checkShape checks that ranges are contiguous and cover the layers, all GPUs are used, no stage
// spans nodes, and each fits.
func checkShape(t *testing.T, s Search, found *pipeline.Template) {
	t.Helper()
	layer, used := 0, make([]int, found.Nodes)
	for i, stage := range found.Stages {
		if stage.From != layer || stage.To <= stage.From {
			t.Fatalf("stage %d: %+v", i, found.Stages)
		}
		layer = stage.To
		used[stage.Node] += stage.GPUs
		if !s.holds(stage.From, stage.To, stage.GPUs, len(found.Stages)-i) {
			t.Fatalf("stage %d does not fit: %+v", i, found.Stages)
		}
	}
	for node, gpus := range used {
		if gpus != s.GPUsPerNode {
			t.Fatalf("node %d: %d of %d GPUs", node, gpus, s.GPUsPerNode)
		}
	}
	if layer != s.Profile.Len() {
		t.Fatalf("%d of %d layers", layer, s.Profile.Len())
	}
}

func randomTimes(r *rand.Rand, layers, most int) (times []int64) {
	for range layers {
		times = append(times, 1+r.Int63n(int64(most)))
	}
	return times
}

func TestSingleAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 1200 {
		times := randomTimes(r, 1+r.Intn(11), []int{3, 20, 1000}[r.Intn(3)])
		s := Search{Profile: profileOf(t, times...), GPUsPerNode: 1}
		for nodes := 1; nodes <= len(times); nodes++ {
			against(t, s, nodes)
		}
	}
}

// TestSlotsAgainstSingle compares two independent searches where both apply.
func TestSlotsAgainstSingle(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 60 {
		s := Search{Profile: profileOf(t, randomTimes(r, 12+r.Intn(20), 50)...), GPUsPerNode: 1}
		for _, nodes := range []int{1, 3, 8, 12} {
			if a, b := single(context.Background(), s.Profile, nodes, nodes)[0], s.slots(context.Background(), nodes).best(); a.Time() != b.Time() {
				t.Fatalf("%d nodes: %d and %d", nodes, a.Time(), b.Time())
			}
		}
	}
}

func TestWideAndFullAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	feasible, all := 0, 0
	for range 250 {
		var layers []pipeline.Layer
		measured := [][]int{{2}, {2, 4}, {3}, {2, 3, 4, 8}, {8}}[r.Intn(5)]
		for range 2 + r.Intn(5) {
			l := pipeline.Layer{
				Forward: time.Duration(1 + r.Intn(30)), Backward: time.Duration(r.Intn(60)),
				StateBytes: r.Int63n(40), ActivationBytes: r.Int63n(20), InNode: map[int]time.Duration{},
			}
			for _, width := range measured {
				l.InNode[width] = time.Duration(r.Intn(9))
			}
			layers = append(layers, l)
		}
		p, err := pipeline.NewProfile(layers)
		if err != nil {
			t.Fatal(err)
		}
		s := Search{
			Profile:        p,
			GPUsPerNode:    []int{1, 2, 4, 8}[r.Intn(4)],
			GPUMemoryBytes: []int64{0, 60, 110, 200}[r.Intn(4)],
		}
		fewest := 0
		for nodes := 1; nodes <= min(3, p.Len()); nodes++ {
			all++
			if against(t, s, nodes) {
				if feasible++; fewest == 0 {
					fewest = nodes
				}
			}
		}
		if got := s.fewestNodes(context.Background(), min(3, p.Len())); got != fewest {
			t.Fatalf("%d nodes hold the model, and %d do by brute force: %+v", got, fewest, layers)
		}
	}
	if feasible < all/4 || feasible == all {
		t.Errorf("%d of %d cases have a cut: both kinds should be tried", feasible, all)
	}
}

func TestSizes(t *testing.T) {
	p := profileOf(t, 1, 1, 1, 1, 1, 1, 1, 1)
	for _, each := range []struct{ nodes, faults, smallest, largest int }{
		{4, 0, 1, 4},
		{4, 3, 1, 1},
		{7, 2, 1, 5},
		{30, 1, 1, 8},
	} {
		smallest, largest, err := Search{Profile: p, GPUsPerNode: 1}.Sizes(context.Background(), each.nodes, each.faults)
		if err != nil || smallest != each.smallest || largest != each.largest {
			t.Errorf("%+v: %d to %d, %v", each, smallest, largest, err)
		}
	}
	_, _, err := Search{Profile: p, GPUsPerNode: 1}.Sizes(context.Background(), 4, 4)
	var infeasible *pipeline.InfeasibleError
	if !errors.As(err, &infeasible) || infeasible.Instead != "with 4 nodes the most is --faults 3" {
		t.Errorf("4 nodes, 4 faults: %v", err)
	}
}

// TestScales: times c times as long give iterations c times as long.
func TestScales(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	for range 300 {
		times := randomTimes(r, 4+r.Intn(20), 100)
		nodes := 1 + r.Intn(min(6, len(times)))
		before := one(t, Search{Profile: profileOf(t, times...), GPUsPerNode: 1}, nodes).Time()
		for i := range times {
			times[i] *= 7
		}
		if got := one(t, Search{Profile: profileOf(t, times...), GPUsPerNode: 1}, nodes).Time(); got != 7*before {
			t.Fatalf("%v: %d, seven times as long as %d", times, got, before)
		}
	}
}

// TestMoreWorkInLessTime documents a weakness of the formula: if the slowest stage moves to the
// left, more work gives a lower T. The true schedule never gets shorter, as package schedule's
// tests show.
func TestMoreWorkInLessTime(t *testing.T) {
	before := one(t, Search{Profile: profileOf(t, 20, 1, 20), GPUsPerNode: 1}, 3).Time()
	after := one(t, Search{Profile: profileOf(t, 21, 1, 20), GPUsPerNode: 1}, 3).Time()
	if before != 261 || after != 252 {
		t.Errorf("T %d and with more work %d; the formula gives 261 and 252", before, after)
	}
}

// TestMemory: more memory never needs more nodes.
func TestMemory(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	for range 100 {
		var layers []pipeline.Layer
		for range 4 + r.Intn(8) {
			layers = append(
				layers,
				pipeline.Layer{Forward: 1, StateBytes: r.Int63n(100), ActivationBytes: r.Int63n(10)},
			)
		}
		p, err := pipeline.NewProfile(layers)
		if err != nil {
			t.Fatal(err)
		}
		last := math.MaxInt
		for memory := int64(100); memory <= 1000; memory += 100 {
			smallest, err := Search{Profile: p, GPUsPerNode: 1, GPUMemoryBytes: memory}.smallest(context.Background(), p.Len())
			if err != nil {
				smallest = math.MaxInt
			}
			if smallest > last {
				t.Fatalf("%d bytes take %d nodes, fewer bytes %d", memory, smallest, last)
			}
			last = smallest
		}
	}
}

// TestCancelled: every search ends with the context's error, before it begins and in the middle.
func TestCancelled(t *testing.T) {
	for _, gpus := range []int{1, 4} {
		s := randomSearch(t, rand.New(rand.NewSource(1)))
		s.GPUsPerNode, s.GPUMemoryBytes = gpus, 1<<40
		ctx, cancel := context.WithCancel(context.Background())
		s.Progress = func(done, all int) {
			if cancel(); done == all {
				t.Error("the search goes on to the end")
			}
		}
		if _, err := s.Templates(ctx, 1, 3); !errors.Is(err, context.Canceled) {
			t.Errorf("%d GPUs a node, in the middle: %v", gpus, err)
		}
		if _, _, err := s.Sizes(ctx, 3, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%d GPUs a node, sizes: %v", gpus, err)
		}
	}
}

// TestCancelledRun: once the context is done, the inner loops end.
func TestCancelledRun(t *testing.T) {
	s := randomSearch(t, rand.New(rand.NewSource(1)))
	ctx, cancel := context.WithCancel(context.Background())
	c := s.slots(ctx, 1)
	if found := c.best(); found == nil {
		t.Fatal("no template")
	}
	c.bound()
	cancel()
	if c.bound() || c.place() != impossible || c.best() != nil {
		t.Error("a search goes on")
	}
}

func BenchmarkAllSizes(b *testing.B) {
	r := rand.New(rand.NewSource(5))
	s := Search{Profile: profileOf(b, randomTimes(r, 96, 1_000_000)...), GPUsPerNode: 1}
	for b.Loop() {
		if _, err := s.Templates(context.Background(), 1, 64); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEightGPUs(b *testing.B) {
	r := rand.New(rand.NewSource(5))
	var layers []pipeline.Layer
	for range 96 {
		layers = append(layers, pipeline.Layer{
			Forward: time.Duration(1e6 + r.Int63n(1e5)), Backward: time.Duration(2e6 + r.Int63n(1e5)),
			InNode: map[int]time.Duration{2: 20_000, 4: 30_000, 8: 50_000},
		})
	}
	p, err := pipeline.NewProfile(layers)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if t := (Search{Profile: p, GPUsPerNode: 8}).slots(context.Background(), 24).best(); t == nil {
			b.Fatal("nothing")
		}
	}
}

// BenchmarkEightFullGPUs searches all sizes up to eight nodes with limited memory.
func BenchmarkEightFullGPUs(b *testing.B) {
	r := rand.New(rand.NewSource(5))
	var layers []pipeline.Layer
	for range 96 {
		layers = append(layers, pipeline.Layer{
			Forward: time.Duration(
				1e6 * (1 + r.Int63n(12)),
			), Backward: time.Duration(1e6 * (1 + r.Int63n(20))), StateBytes: 1 + r.Int63n(10),
			ActivationBytes: r.Int63n(
				6,
			), InNode: map[int]time.Duration{2: time.Millisecond, 4: 2 * time.Millisecond, 8: 3 * time.Millisecond},
		})
	}
	p, err := pipeline.NewProfile(layers)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := Search{Profile: p, GPUsPerNode: 8, GPUMemoryBytes: 60}
		smallest, largest, err := s.Sizes(context.Background(), 8, 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Templates(context.Background(), smallest, largest); err != nil {
			b.Fatal(err)
		}
	}
}
