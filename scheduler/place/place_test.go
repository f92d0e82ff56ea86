package place_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// scene is a state of a cluster with jobs, and the same in the simplest form: what is free of each
// GPU.
type scene struct {
	*schedulertest.View
	nodes []cluster.Node
	free  map[cluster.GPU]int
}

// mix is the workload that fgd assumes.
var mix = []place.Task{
	{GPUs: 1, Share: 250, Jobs: 5},
	{GPUs: 1, Share: 500, Jobs: 3},
	{GPUs: 1, Share: cluster.WholeGPU, Jobs: 7},
	{GPUs: 2, Share: cluster.WholeGPU, Jobs: 4},
	{GPUs: 4, Share: cluster.WholeGPU, GPUType: "A", Jobs: 2},
	{GPUs: 16, Share: cluster.WholeGPU, Jobs: 1},
}

func placer(t testing.TB, name string) scheduler.Placer {
	t.Helper()
	p, err := place.ByName(name, place.Parameters{Mix: mix})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// makeScene fills a part of a random cluster with jobs and closes a few of its nodes.
func makeScene(r *rand.Rand, nodes []cluster.Node, want ...schedulertest.Job) *scene {
	s := &scene{nodes: nodes, free: map[cluster.GPU]int{}}
	jobs := want
	busy := r.IntN(11)
	for _, node := range nodes {
		for i := range node.GPUs {
			gpu := cluster.GPU{Node: node.ID, Index: int32(i)}
			s.free[gpu] = cluster.WholeGPU
			if r.IntN(10) >= busy {
				continue
			}
			share := []int{cluster.WholeGPU, cluster.WholeGPU, 250, 500, 700, 950}[r.IntN(6)]
			s.free[gpu] -= share
			jobs = append(jobs, schedulertest.Job{
				Job: cluster.Job{
					ID:    cluster.JobID(1000 + len(jobs)),
					GPUs:  1,
					Share: share,
				}, Phase: scheduler.Running, On: cluster.Placement{gpu},
			})
		}
	}
	s.View = schedulertest.NewView(0, nodes, jobs...)
	for _, node := range nodes {
		if r.IntN(12) == 0 {
			s.Close(node.ID)
			for i := range node.GPUs {
				s.free[cluster.GPU{Node: node.ID, Index: int32(i)}] = 0
			}
		}
	}
	return s
}

func (s *scene) suits(j *scheduler.Job, node cluster.NodeID) bool {
	n := s.nodes[node]
	return (j.GPUType() == "" || j.GPUType() == n.GPUType) &&
		(n.GPUMemoryBytes == 0 || j.GPUMemoryBytes() <= n.GPUMemoryBytes)
}

// usable returns the GPUs of a node that a job could have, by index.
func (s *scene) usable(j *scheduler.Job, node cluster.NodeID) (gpus []int) {
	for i := range s.nodes[node].GPUs {
		if s.suits(j, node) && s.free[cluster.GPU{Node: node, Index: int32(i)}] >= j.Share() {
			gpus = append(gpus, i)
		}
	}
	return gpus
}

// byNode returns how many GPUs of each node a job could have.
func (s *scene) byNode(j *scheduler.Job) (counts []int, all int) {
	for _, node := range s.nodes {
		n := len(s.usable(j, node.ID))
		counts, all = append(counts, n), all+n
	}
	return counts, all
}

func randomNodes(r *rand.Rand, n int, types []string) []cluster.Node {
	var nodes []cluster.Node
	for i := range n {
		node := cluster.Node{
			ID:   cluster.NodeID(i),
			GPUs: []int{1, 2, 4, 4, 8}[r.IntN(5)],
			Rack: fmt.Sprint("r", r.IntN(3)),
		}
		node.GPUType = types[r.IntN(len(types))]
		node.GPUMemoryBytes = []int64{0, 16, 80}[r.IntN(3)]
		if r.IntN(2) == 0 {
			node.Links = randomLinks(r, node.GPUs)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

func randomLinks(r *rand.Rand, gpus int) [][]float64 {
	links := make([][]float64, gpus)
	for a := range links {
		links[a] = make([]float64, gpus)
		for b := range links[a] {
			links[a][b] = []float64{10, 25, 50, 300}[r.IntN(4)]
		}
	}
	return links
}

func randomJob(r *rand.Rand) schedulertest.Job {
	j := cluster.Job{ID: 1, GPUs: 1 + r.IntN(14), Model: []string{"", "vgg16", "resnet50"}[r.IntN(3)]}
	j.GPUType = []string{"", "", "A"}[r.IntN(3)]
	j.GPUMemoryBytes = []int64{0, 0, 40}[r.IntN(3)]
	if r.IntN(3) == 0 {
		j.GPUs, j.Share = 1, []int{250, 300, 500}[r.IntN(3)]
	}
	return schedulertest.Job{Job: j, Phase: scheduler.Waiting}
}

// scenes calls a test with many random scenes with a waiting job.
func scenes(t *testing.T, n uint64, types []string, test func(t *testing.T, s *scene, j *scheduler.Job)) {
	t.Helper()
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 7))
		s := makeScene(r, randomNodes(r, 1+r.IntN(9), types), randomJob(r))
		test(t, s, s.Job(1))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestPlacementsAreFree checks every placement: the GPUs are free, suitable, sorted and distinct;
// the same question has the same answer; and all but skew find a place whenever there is one.
func TestPlacementsAreFree(t *testing.T) {
	for _, name := range place.Names() {
		t.Run(name, func(t *testing.T) {
			scenes(t, 600, []string{"", "A", "B"}, func(t *testing.T, s *scene, j *scheduler.Job) {
				p := placer(t, name)
				on, ok := p.Place(s, j, j.GPUs())
				if again, _ := p.Place(s, j, j.GPUs()); ok && !slices.Equal(on, again) {
					t.Errorf("%v, and then %v", on, again)
				}
				_, free := s.byNode(j)
				if name != "skew" && ok != (free >= j.GPUs()) || ok && free < j.GPUs() {
					t.Errorf("%d free of %d: %v", free, j.GPUs(), ok)
				}
				if ok {
					s.holds(t, j, on)
				}
			})
		})
	}
}

func (s *scene) holds(t *testing.T, j *scheduler.Job, on cluster.Placement) {
	t.Helper()
	if len(on) != j.GPUs() {
		t.Errorf("%d GPUs, wanted %d", len(on), j.GPUs())
	}
	for i, gpu := range on {
		if !s.suits(j, gpu.Node) || s.free[gpu] < j.Share() {
			t.Errorf("%v is not free for %d thousandths, or does not suit: %d", gpu, j.Share(), s.free[gpu])
		}
		if i > 0 && (gpu.Node < on[i-1].Node || gpu.Node == on[i-1].Node && gpu.Index <= on[i-1].Index) {
			t.Errorf("%v is out of order", on)
		}
	}
}

// TestFirstFreeTakesTheLowest compares with walking all GPUs.
func TestFirstFreeTakesTheLowest(t *testing.T) {
	scenes(t, 300, []string{"", "A"}, func(t *testing.T, s *scene, j *scheduler.Job) {
		var want cluster.Placement
		for _, node := range s.nodes {
			for _, i := range s.usable(j, node.ID) {
				want = append(want, cluster.GPU{Node: node.ID, Index: int32(i)})
			}
		}
		on, ok := placer(t, "first-free").Place(s, j, j.GPUs())
		if ok && !slices.Equal(on, want[:j.GPUs()]) {
			t.Errorf("%v, want %v", on, want[:j.GPUs()])
		}
	})
}

// TestBestFitTakesTheFewestNodes compares with all subsets of nodes: no smaller subset suffices,
// and no other single node leaves less over.
func TestBestFitTakesTheFewestNodes(t *testing.T) {
	scenes(t, 400, []string{"", "A"}, func(t *testing.T, s *scene, j *scheduler.Job) {
		on, ok := placer(t, "best-fit").Place(s, j, j.GPUs())
		if !ok {
			return
		}
		if j.Share() < cluster.WholeGPU {
			s.isTightest(t, j, on[0])
			return
		}
		counts, _ := s.byNode(j)
		fewest := fewestOf(counts, j.GPUs())
		if on.Nodes() != fewest {
			t.Errorf("%v: %d nodes of %v, not %d", on, on.Nodes(), counts, fewest)
		}
		for node, n := range counts {
			if fewest == 1 && n >= j.GPUs() &&
				(n < counts[on[0].Node] || n == counts[on[0].Node] && node < int(on[0].Node)) {
				t.Errorf("%v, though node %d of %v fits better", on, node, counts)
			}
		}
	})
}

func (s *scene) isTightest(t *testing.T, j *scheduler.Job, chosen cluster.GPU) {
	t.Helper()
	for gpu, free := range s.free {
		if s.suits(j, gpu.Node) && free >= j.Share() && free < s.free[chosen] {
			t.Errorf("%v with %d, though %v has %d", chosen, s.free[chosen], gpu, free)
		}
	}
}

// fewestOf returns how many of some counts make up n, by trying all subsets.
func fewestOf(counts []int, n int) int {
	fewest := len(counts) + 1
	for set := range 1 << len(counts) {
		sum, size := 0, 0
		for i, c := range counts {
			if set&(1<<i) != 0 {
				sum, size = sum+c, size+1
			}
		}
		if sum >= n {
			fewest = min(fewest, size)
		}
	}
	return fewest
}

func TestSkewConsolidatesOrRefuses(t *testing.T) {
	refused, spread := 0, 0
	scenes(t, 600, []string{""}, func(t *testing.T, s *scene, j *scheduler.Job) {
		on, ok := placer(t, "skew").Place(s, j, j.GPUs())
		var sizes []int
		for _, node := range s.nodes {
			open := !s.Free().Closed(node.ID) && s.suits(j, node.ID)
			if open {
				sizes = append(sizes, node.GPUs)
			}
		}
		counts, free := s.byNode(j)
		possible, now := fewestOf(sizes, j.GPUs()), fewestOf(counts, j.GPUs())
		skewed := j.Model() == "vgg16" && j.GPUs() > 1
		switch {
		case free < j.GPUs():
		case skewed && ok != (possible == now):
			t.Errorf("%d nodes would do, %d do now: %v", possible, now, ok)
		case skewed && ok && on.Nodes() != possible:
			t.Errorf("%v lies on %d nodes, %d would do", on, on.Nodes(), possible)
		case skewed && !ok:
			refused++
		case !skewed && !ok:
			t.Error("refused, though it may be spread")
		case on.Nodes() > now:
			spread++
		}
	})
	if refused == 0 || spread == 0 {
		t.Errorf("the scenes refuse %d skewed jobs and spread %d others: the test shows nothing", refused, spread)
	}
}

func TestSkewOf(t *testing.T) {
	for model, skewed := range map[string]bool{
		"vgg16": true, "VGG-19": true, "alexnet": true, "ResNet-50": false, "resnet152": false, "inception_v3": false,
		"googlenet": false,
		"bert-base": false, "": false, "never-heard-of": false,
	} {
		if got := place.SkewOf(model) > place.DefaultPackLimit; got != skewed {
			t.Errorf("%q has skew %v: consolidated %v, want %v", model, place.SkewOf(model), got, skewed)
		}
	}
	if place.SkewOf("resnet18") == place.SkewOf("resnet50") {
		t.Error("the longest name counts")
	}
}

func TestNames(t *testing.T) {
	for _, name := range place.Names() {
		if placer(t, name) == nil {
			t.Error(name)
		}
	}
	if _, err := place.ByName("worst-fit", place.Parameters{}); err == nil ||
		!strings.Contains(err.Error(), "best-fit") {
		t.Errorf("an unknown name answers with those that exist: %v", err)
	}
	if _, err := place.ByName("fgd", place.Parameters{}); !errors.Is(err, place.ErrNoMix) {
		t.Errorf("fgd without a mix: %v", err)
	}
}
