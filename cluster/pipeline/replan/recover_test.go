package replan

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
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// model has layers with different state sizes, so that it matters which ones are copied.
func model(t testing.TB, layers int) *pipeline.Profile {
	t.Helper()
	var all []pipeline.Layer
	for i := range layers {
		all = append(
			all,
			pipeline.Layer{Name: fmt.Sprint(i), Forward: time.Duration(100 + i%7), StateBytes: int64(1000 + i)},
		)
	}
	p, err := pipeline.NewProfile(all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// planOf returns a plan with pipelines of given sizes on nodes from 0 on, and templates from
// smallest to largest.
func planOf(t testing.TB, p *pipeline.Profile, faults, smallest, largest int, sizes ...int) *pipeline.Plan {
	t.Helper()
	plan := &pipeline.Plan{
		Profile: p, Templates: templatesOf(t, p)[smallest-1 : largest],
		Spec: pipeline.Spec{Nodes: sum(sizes), GPUsPerNode: 1, Faults: faults, Microbatches: 5040},
	}
	next := cluster.NodeID(0)
	for _, size := range sizes {
		each := pipeline.Pipeline{Template: size, Microbatches: 1}
		for range size {
			each.Nodes = append(each.Nodes, next)
			next++
		}
		plan.Pipelines = append(plan.Pipelines, each)
	}
	return plan
}

var templates = map[*pipeline.Profile][]*pipeline.Template{}

// templatesOf returns a profile's templates for all sizes from one node on. Tests drop those that
// would not fit into memory.
func templatesOf(t testing.TB, p *pipeline.Profile) []*pipeline.Template {
	t.Helper()
	if templates[p] == nil {
		plan, err := instance.Templates(context.Background(), p, pipeline.Spec{Nodes: p.Len(), GPUsPerNode: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		templates[p] = plan.Templates
	}
	return templates[p]
}

func sizesOf(plan *pipeline.Plan) (sizes []int) {
	for _, each := range plan.Pipelines {
		sizes = append(sizes, each.Template)
	}
	return sizes
}

func ids(from ...int) (nodes []cluster.NodeID) {
	for _, n := range from {
		nodes = append(nodes, cluster.NodeID(n))
	}
	return nodes
}

func recovered(t testing.TB, plan *pipeline.Plan, c Change) *Result {
	t.Helper()
	r, err := Recover(plan, c)
	if err != nil {
		t.Fatalf("%v, %+v: %v", sizesOf(plan), c, err)
	}
	return r
}

// TestWorked checks the sizes that the published steps make.
func TestWorked(t *testing.T) {
	for _, each := range []struct {
		name     string
		smallest int
		largest  int
		faults   int
		sizes    []int
		dead     []int
		want     []int
	}{
		{"a smaller template", 2, 8, 1, []int{2, 3, 4, 5}, []int{2}, []int{2, 2, 4, 5}},
		{"borrowed from the largest", 2, 8, 1, []int{2, 3, 4, 5}, []int{0}, []int{2, 3, 4, 4}},
		{"merged", 3, 5, 0, []int{3, 3, 3}, []int{0, 3, 4}, []int{3, 3}},
		{"a whole pipeline, and the largest is split", 2, 4, 2, []int{4, 2, 2}, []int{4, 5}, []int{2, 2, 2}},
		{"as many as there can be of the merged", 3, 6, 3, []int{3, 3, 3, 3, 3}, []int{0, 3, 6}, []int{3, 3, 3, 3}},
	} {
		t.Run(each.name, func(t *testing.T) {
			plan := planOf(t, model(t, 12), each.faults, each.smallest, each.largest, each.sizes...)
			got := publishedSizes(t, plan, Change{Dead: ids(each.dead...)})
			slices.Sort(got)
			slices.Sort(each.want)
			if !slices.Equal(got, each.want) {
				t.Errorf("%v, want %v", got, each.want)
			}
		})
	}
}

// TestPublishedLayout checks the published example of four pipelines: the published steps make it,
// and a recovery sends fewer bytes in an iteration that is no longer.
func TestPublishedLayout(t *testing.T) {
	plan := planOf(t, model(t, 12), 1, 2, 8, 2, 3, 4, 5)
	plan.Spec.Microbatches = 120 // few enough to try all splits
	c := Change{Dead: ids(2)}
	s := newSizing(plan, c)
	s.run()
	next, _ := assignNodes(plan, survivors(plan, &c), s.live())
	r := recovered(t, plan, c)
	sent, _, _ := newSupply(plan, survivors(plan, &c)).assign(sizesOf(next))
	if got := slowest(plan, sizesOf(r.Plan)); r.Bytes >= sent || got > slowest(plan, sizesOf(next)) {
		t.Errorf("%v: %d bytes, the published steps send %d", sizesOf(r.Plan), r.Bytes, sent)
	}
	for i, want := range [][]cluster.NodeID{ids(0, 1), ids(3, 4), ids(5, 6, 7, 8), ids(9, 10, 11, 12, 13)} {
		if got := sortedSet(next.Pipelines[i].Nodes); !slices.Equal(got, want) {
			t.Errorf("pipeline %d: %v, want %v", i, got, want)
		}
	}
}

// sound checks all invariants of a result, independently of the code.
func sound(t testing.TB, before *pipeline.Plan, c Change, r *Result) {
	t.Helper()
	where := fmt.Sprintf("%v, %+v: %v", sizesOf(before), c, sizesOf(r.Plan))
	if len(r.Plan.Pipelines) < before.Spec.Faults+1 {
		t.Fatalf("%s: too few pipelines", where)
	}
	seen := map[cluster.NodeID]bool{}
	for _, node := range r.Plan.Nodes() {
		if seen[node] || slices.Contains(c.Dead, node) || slices.Contains(c.Leaving, node) {
			t.Fatalf("%s: node %d twice, or dead", where, node)
		}
		seen[node] = true
	}
	for _, node := range append(before.Nodes(), c.Joined...) {
		if !seen[node] && !slices.Contains(c.Dead, node) && !slices.Contains(c.Leaving, node) {
			t.Fatalf("%s: node %d is lost", where, node)
		}
	}
	batch := 0
	for _, each := range r.Plan.Pipelines {
		if r.Plan.Template(each.Template) == nil || len(each.Nodes) != each.Template {
			t.Fatalf("%s: a pipeline of %d nodes without a template", where, len(each.Nodes))
		}
		batch += each.Microbatches
	}
	if batch != before.Spec.Microbatches {
		t.Fatalf("%s: %d microbatches", where, batch)
	}
	soundTransfers(t, where, before, c, r)
}

type key struct {
	node  cluster.NodeID
	layer int
}

// layersOf returns which node holds which layers, by walking stages.
func layersOf(plan *pipeline.Plan) map[key]bool {
	held := map[key]bool{}
	for _, each := range plan.Pipelines {
		for _, s := range plan.Template(each.Template).Stages {
			for layer := s.From; layer < s.To; layer++ {
				held[key{each.Nodes[s.Node], layer}] = true
			}
		}
	}
	return held
}

func soundTransfers(t testing.TB, where string, before *pipeline.Plan, c Change, r *Result) {
	t.Helper()
	had, sent := layersOf(before), map[key]bool{}
	var bytes int64
	for _, each := range r.Transfers {
		to := key{each.To, each.Layer}
		if had[to] || sent[to] {
			t.Fatalf("%s: layer %d is sent to %d, which has it", where, each.Layer, each.To)
		}
		sent[to] = true
		var at, least, most int64 = 0, math.MaxInt64, 0
		for _, s := range each.Stripes {
			if s.Offset != at || !had[key{s.From, each.Layer}] || slices.Contains(c.Dead, s.From) {
				t.Fatalf("%s: stripe %+v of layer %d", where, s, each.Layer)
			}
			at += s.Bytes
			least, most = min(least, s.Bytes), max(most, s.Bytes)
		}
		if at != before.Profile.Layers[each.Layer].StateBytes || most-least > 1 {
			t.Fatalf("%s: layer %d comes in %+v", where, each.Layer, each.Stripes)
		}
		bytes += at
	}
	for _, each := range r.Lost {
		for holder := range had {
			if holder.layer == each.Layer && !slices.Contains(c.Dead, holder.node) {
				t.Fatalf("%s: layer %d is reported lost, but node %d has it", where, each.Layer, holder.node)
			}
		}
		for _, to := range each.To {
			sent[key{to, each.Layer}] = true
		}
	}
	for need := range layersOf(r.Plan) {
		if !had[need] && !sent[need] {
			t.Fatalf("%s: node %d lacks layer %d", where, need.node, need.layer)
		}
	}
	if bytes != r.Bytes {
		t.Fatalf("%s: %d bytes, reckoned %d", where, r.Bytes, bytes)
	}
}

// universe calls each with every plan that nodes can make, by sizes, and each way to kill some
// nodes of each pipeline that leaves enough.
func universe(smallest, faults, nodes int, each func(sizes, dead []int)) {
	largest := nodes - faults*smallest
	var combine func(from, left int, sizes []int)
	combine = func(from, left int, sizes []int) {
		if left == 0 && len(sizes) > faults {
			kill(sizes, 0, nodes-(faults+1)*smallest, nil, func(dead []int) { each(sizes, dead) })
		}
		for size := from; size <= min(left, largest); size++ {
			combine(size, left-size, append(slices.Clone(sizes), size))
		}
	}
	combine(smallest, nodes, nil)
}

// kill chooses how many nodes of each pipeline die, at most `most` in all.
func kill(sizes []int, i, most int, dead []int, each func([]int)) {
	if i == len(sizes) {
		if slices.Max(dead) > 0 {
			each(dead)
		}
		return
	}
	limit := min(most, sizes[i])
	if i > 0 && sizes[i] == sizes[i-1] {
		// By symmetry, only one order of the losses of equal pipelines is tried.
		limit = min(limit, dead[i-1])
	}
	for n := 0; n <= limit; n++ {
		kill(sizes, i+1, most-n, append(slices.Clone(dead), n), each)
	}
}

// TestUniverse checks every recovery of small clusters, up to symmetry: the sizes of each, and the
// complete plan of some. There are as many layers as nodes, so that there is a template for each
// size.
func TestUniverse(t *testing.T) {
	p := model(t, 18)
	u := &recoveries{T: t, profile: p}
	for smallest := 1; smallest <= 4; smallest++ {
		for faults := 0; faults <= 3; faults++ {
			for nodes := (faults + 1) * smallest; nodes <= 18; nodes++ {
				if rounds.All() || nodes <= 13 {
					u.all(smallest, faults, nodes)
				}
			}
		}
	}
	if want := 2_137_741; rounds.All() && u.cases != want {
		t.Errorf("%d recoveries; counted by generating functions they are %d", u.cases, want)
	}
}

type recoveries struct {
	*testing.T
	profile *pipeline.Profile
	cases   int
}

func (u *recoveries) all(smallest, faults, nodes int) {
	universe(smallest, faults, nodes, func(sizes, dead []int) {
		plan := planOf(u, u.profile, faults, smallest, nodes-faults*smallest, sizes...)
		var c Change
		for i, n := range dead {
			// Which nodes of a pipeline die varies with the case.
			for k := range n {
				c.Dead = append(c.Dead, plan.Pipelines[i].Nodes[(k+u.cases)%sizes[i]])
			}
		}
		slices.Sort(c.Dead)
		u.cases++
		s := newSizing(plan, c)
		s.run()
		soundSizes(u.T, s, nodes-len(c.Dead))
		if u.cases%211 == 0 {
			r := recovered(u, plan, c)
			sound(u, plan, c, r)
			untouched(u.T, plan, r)
		}
	})
}

func soundSizes(t *testing.T, s *sizing, nodes int) {
	live := s.live()
	used := 0
	for _, each := range live {
		if used += each.size; s.plan.Template(each.size) == nil {
			t.Fatalf("%v: a pipeline of %d nodes", sizesOf(s.plan), each.size)
		}
	}
	if len(live) <= s.plan.Spec.Faults || used > nodes || nodes-used >= s.plan.Smallest() {
		t.Fatalf("%v: %d pipelines of %d nodes, of %d", sizesOf(s.plan), len(live), used, nodes)
	}
}

func sum(numbers []int) (all int) {
	for _, n := range numbers {
		all += n
	}
	return all
}

// untouched checks that a pipeline without a step keeps its nodes in order.
func untouched(t *testing.T, before *pipeline.Plan, r *Result) {
	t.Helper()
	for i, each := range before.Pipelines {
		if slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Pipeline == i }) {
			continue
		}
		if !slices.ContainsFunc(
			r.Plan.Pipelines,
			func(after pipeline.Pipeline) bool { return slices.Equal(after.Nodes, each.Nodes) },
		) {
			t.Fatalf("pipeline %d has no step and other nodes: %+v", i, r.Plan.Pipelines)
		}
	}
}

// TestSuperseded checks that the order of events does not matter, nor how they are grouped.
func TestSuperseded(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 200 {
		plan := planOf(t, model(t, 16), 1, 2, 12, 4, 3, 5, 4)
		dead := r.Perm(16)[:1+r.Intn(9)]
		c := Change{Dead: ids(dead...), Joined: ids(20, 21)}
		once := recovered(t, plan, c)
		sound(t, plan, c, once)
		rand.Shuffle(len(c.Dead), func(i, j int) { c.Dead[i], c.Dead[j] = c.Dead[j], c.Dead[i] })
		c.Dead, c.Joined = append(c.Dead, c.Dead[0]), ids(21, 20, 21)
		if again := recovered(t, plan, c); again.Plan.Hash() != once.Plan.Hash() {
			t.Fatalf("%v: %v and %v", dead, once.Plan.Pipelines, again.Plan.Pipelines)
		}
	}
}

func TestJoinsAndDrains(t *testing.T) {
	plan := planOf(t, model(t, 12), 1, 2, 6, 3, 4)
	for _, each := range []struct {
		name   string
		change Change
		want   []int
	}{
		{"a spare takes the lost one's place", Change{Dead: ids(1), Joined: ids(9)}, []int{3, 4}},
		{"one more is added to the smaller", Change{Joined: ids(9)}, []int{4, 4}},
		{"enough for another pipeline", Change{Joined: ids(9, 10, 11)}, []int{3, 4, 3}},
		{"a leaving node is replaced", Change{Leaving: ids(4), Joined: ids(8)}, []int{3, 4}},
	} {
		r := recovered(t, plan, each.change)
		sound(t, plan, each.change, r)
		if got := sizesOf(r.Plan); !slices.Equal(got, each.want) {
			t.Errorf("%s: %v, want %v", each.name, got, each.want)
		}
	}
	r := recovered(t, plan, Change{Leaving: ids(4), Joined: ids(8)})
	for _, each := range r.Transfers {
		if !slices.ContainsFunc(each.Stripes, func(s Stripe) bool { return s.From == 4 }) {
			t.Errorf("layer %d is not copied from the leaving node: %+v", each.Layer, each.Stripes)
		}
	}
}

// TestUneven: three equal pipelines continue with a batch that is not a multiple of three.
func TestUneven(t *testing.T) {
	plan := planOf(t, model(t, 12), 2, 4, 5, 4, 4, 5)
	plan.Spec.Microbatches = 512
	r := recovered(t, plan, Change{Dead: ids(12)})
	sound(t, plan, Change{Dead: ids(12)}, r)
	var got []int
	for _, each := range r.Plan.Pipelines {
		got = append(got, each.Microbatches)
	}
	if slices.Sort(got); !slices.Equal(got, []int{170, 171, 171}) {
		t.Errorf("%v microbatches", got)
	}
}

func TestLost(t *testing.T) {
	plan := planOf(t, model(t, 12), 1, 1, 6, 2, 2)
	r := recovered(t, plan, Change{Dead: ids(0, 2)})
	sound(t, plan, Change{Dead: ids(0, 2)}, r)
	if len(r.Lost) == 0 || r.Lost[0].Layer != 0 {
		t.Errorf("both first stages are dead, and %+v is lost", r.Lost)
	}
}

func TestRefusals(t *testing.T) {
	plan := planOf(t, model(t, 12), 1, 3, 6, 3, 4)
	for _, each := range []struct {
		change Change
		want   string
	}{
		{
			Change{Dead: ids(2, 6)},
			"5 nodes are left, and 2 pipelines of at least 3 nodes take 6; with 5 nodes the most is --faults 0",
		},
		{
			Change{Dead: ids(0, 1, 2, 3, 4)},
			"2 nodes are left, and 2 pipelines of at least 3 nodes take 6; no pipeline is possible: " +
				"save the layers' state and wait for 1 more node",
		},
		{Change{Dead: ids(40)}, "dead node 40: is not in the plan; wanted nodes out of 0-6"},
		{Change{Joined: ids(2)}, "joining node 2: is in the plan already, or below 0; wanted numbers of new nodes"},
	} {
		var infeasible *pipeline.InfeasibleError
		var input *pipeline.InputError
		_, err := Recover(plan, each.change)
		if err == nil || err.Error() != each.want || !errors.As(err, &infeasible) && !errors.As(err, &input) {
			t.Errorf("%+v: %v\nwant %s", each.change, err, each.want)
		}
	}
}

func BenchmarkThousandNodes(b *testing.B) {
	p := model(b, 96)
	for _, each := range []struct {
		name  string
		sizes []int
		every int // of so many nodes one dies
	}{
		{"equal sizes", slices.Repeat([]int{20}, 50), 97},
		{"many sizes, a tenth dies", []int{80, 75, 70, 66, 61, 60, 55, 53, 50, 47, 45, 42, 40, 38, 35, 33, 30, 29, 25, 23, 21, 12}, 10},
	} {
		plan := planOf(b, p, 2, 10, 90, each.sizes...)
		var dead []int
		for node := 3; node < sum(each.sizes); node += each.every {
			dead = append(dead, node)
		}
		b.Run(each.name, func(b *testing.B) {
			for b.Loop() {
				recovered(b, plan, Change{Dead: ids(dead...)})
			}
		})
	}
}

// TestJoinsBeyondTheBatch: there are never more pipelines than microbatches; further nodes enlarge
// pipelines or are spare.
func TestJoinsBeyondTheBatch(t *testing.T) {
	plan := planOf(t, model(t, 12), 1, 2, 4, 2, 2)
	plan.Spec.Microbatches = 2
	r, err := Recover(plan, Change{Joined: []cluster.NodeID{100, 101, 102}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Plan.Pipelines) != 2 || len(r.Plan.Nodes()) != 7 {
		t.Errorf("%d pipelines of %d nodes, wanted 2 of 7", len(r.Plan.Pipelines), len(r.Plan.Nodes()))
	}
	var many []cluster.NodeID
	for node := range pipeline.MaxNodes {
		many = append(many, cluster.NodeID(node+1000))
	}
	if _, err := Recover(plan, Change{Joined: many}); err == nil {
		t.Error("more nodes than can be planned for join")
	}
}
