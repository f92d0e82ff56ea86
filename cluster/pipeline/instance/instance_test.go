package instance

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

func proportional(times ...int64) (shares []Share) {
	for _, each := range times {
		shares = append(shares, Share{pipeline.Line{Each: each}, 1})
	}
	return shares
}

// TestPublished checks the splits of the published slides: one pipeline of two nodes, one of three,
// two of four.
func TestPublished(t *testing.T) {
	shares := proportional(6, 4, 3)
	shares[2].Count = 2
	split, slowest, err := Distribute(shares, 512)
	if err != nil || !slices.Equal(split, []int{78, 118, 158}) || slowest != 474 {
		t.Errorf("%v, slowest %d, %v; published 78 118 158, 39.5 of a pipeline's", split, slowest, err)
	}
	_, slowest, err = Distribute(
		[]Share{{pipeline.Line{Each: 61}, 4}, {pipeline.Line{Each: 48}, 1}, {pipeline.Line{Each: 38}, 1}},
		4096,
	)
	if err != nil {
		t.Fatal(err)
	}
	if want := bruteSlowest([]Share{
		{pipeline.Line{Each: 61}, 4},
		{pipeline.Line{Each: 48}, 1},
		{pipeline.Line{Each: 38}, 1},
	}, 4096); slowest != want {
		t.Errorf("slowest %d, by enumeration %d", slowest, want)
	}
}

// bruteSlowest tries every split.
func bruteSlowest(shares []Share, microbatches int) int64 {
	if len(shares) == 1 {
		if microbatches < shares[0].Count || microbatches%shares[0].Count != 0 {
			return math.MaxInt64
		}
		return shares[0].Line.At(microbatches / shares[0].Count)
	}
	best := int64(math.MaxInt64)
	for n := 1; n*shares[0].Count < microbatches; n++ {
		rest := bruteSlowest(shares[1:], microbatches-n*shares[0].Count)
		best = min(best, max(shares[0].Line.At(n), rest))
	}
	return best
}

func randomLine(r *rand.Rand) pipeline.Line {
	return pipeline.Line{Fixed: r.Int63n(60), Each: 1 + r.Int63n(30)}
}

func TestDistributeAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	refused := 0
	for range 3000 {
		var shares []Share
		for range 1 + r.Intn(3) {
			shares = append(shares, Share{randomLine(r), 1 + r.Intn(5)})
		}
		microbatches := r.Intn(60)
		want := bruteSlowest(shares, microbatches)
		split, slowest, err := Distribute(shares, microbatches)
		if want == math.MaxInt64 {
			refused++
			checkRefusal(t, shares, microbatches, err)
			continue
		}
		sum := 0
		for i, n := range split {
			sum += n * shares[i].Count
		}
		if err != nil || sum != microbatches || slices.Min(split) < 1 || slowest != want {
			t.Fatalf("%v, %d: %v, slowest %d, %v; by enumeration %d", shares, microbatches, split, slowest, err, want)
		}
	}
	if refused < 100 {
		t.Errorf("only %d batches that cannot be split", refused)
	}
}

func checkRefusal(t *testing.T, shares []Share, microbatches int, err error) {
	t.Helper()
	var refusal *UnsplittableError
	if !errors.As(err, &refusal) {
		t.Fatalf("%v, %d: %v", shares, microbatches, err)
	}
	away := refusal.Nearest - microbatches
	if away < 0 {
		away = -away
	}
	if bruteSlowest(shares, refusal.Nearest) == math.MaxInt64 {
		t.Fatalf("%v: the nearest, %d, cannot be split either", shares, refusal.Nearest)
	}
	for closer := 1; closer < away; closer++ {
		if bruteSlowest(shares, microbatches-closer) != math.MaxInt64 ||
			bruteSlowest(shares, microbatches+closer) != math.MaxInt64 {
			t.Fatalf("%v: %d can be split, and is nearer to %d than %d", shares, closer, microbatches, refusal.Nearest)
		}
	}
}

// everyCombination tries all counts that use all nodes.
func everyCombination(p *Problem, i, nodes int, counts []int, each func([]int)) {
	if i == len(p.Lines) {
		pipelines := 0
		for _, n := range counts {
			pipelines += n
		}
		if nodes == 0 && pipelines >= p.Pipelines {
			each(counts)
		}
		return
	}
	for n := 0; n*(p.Smallest+i) <= nodes; n++ {
		everyCombination(p, i+1, nodes-n*(p.Smallest+i), append(counts, n), each)
	}
}

func bruteSolve(p *Problem) int64 {
	best := int64(math.MaxInt64)
	everyCombination(p, 0, p.Nodes, nil, func(counts []int) {
		var shares []Share
		pipelines := 0
		for i, n := range counts {
			if pipelines += n; n > 0 {
				shares = append(shares, Share{p.Lines[i], n})
			}
		}
		if _, slowest, err := Distribute(shares, p.Microbatches); err == nil {
			best = min(best, slowest+p.AllReduce(pipelines))
		}
	})
	return best
}

func TestSolveAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	none := 0
	for range 400 {
		p := &Problem{
			Smallest:     1 + r.Intn(3),
			Nodes:        1 + r.Intn(20),
			Pipelines:    1 + r.Intn(4),
			Microbatches: 1 + r.Intn(80),
		}
		for range 1 + r.Intn(6) {
			p.Lines = append(p.Lines, randomLine(r))
		}
		slope := r.Int63n(20)
		p.AllReduce = func(pipelines int) int64 { return slope * int64(pipelines-1) }
		want, got := bruteSolve(p), p.Solve(context.Background())
		switch {
		case want == math.MaxInt64:
			if none++; got != nil {
				t.Fatalf("%+v: %+v, where there is none", p, got)
			}
		case got == nil:
			t.Fatalf("%+v: nothing, by enumeration %d", p, want)
		case got.Time != want || got.AtLeast != want:
			t.Fatalf("%+v: %+v, by enumeration %d", p, got, want)
		default:
			checkCombination(t, p, got)
		}
	}
	if none == 0 || none > 200 {
		t.Errorf("%d of 400 problems have no solution: both kinds should be tried", none)
	}
}

// bruteUneven tries all combinations, and adds microbatches one by one to the pipeline that is then
// fastest. That is the best split: the lines are straight.
func bruteUneven(p *Problem) int64 {
	best := int64(math.MaxInt64)
	everyCombination(p, 0, p.Nodes, nil, func(counts []int) {
		var each []pipeline.Line
		for i, n := range counts {
			each = append(each, slices.Repeat(p.Lines[i:i+1], n)...)
		}
		if len(each) == 0 || len(each) > p.Microbatches {
			return
		}
		split, slowest := slices.Repeat([]int{1}, len(each)), int64(0)
		for range p.Microbatches - len(each) {
			at := 0
			for i, line := range each {
				if line.At(split[i]+1) < each[at].At(split[at]+1) {
					at = i
				}
			}
			split[at]++
		}
		for i, line := range each {
			slowest = max(slowest, line.At(split[i]))
		}
		best = min(best, slowest+p.AllReduce(len(each)))
	})
	return best
}

// TestUnevenAgainstBruteForce: without equal parts every batch can be split that has a microbatch
// for each pipeline.
func TestUnevenAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	solved := 0
	for range 300 {
		p := &Problem{
			Smallest: 1 + r.Intn(3), Nodes: 1 + r.Intn(16), Pipelines: 1 + r.Intn(4), Microbatches: 1 + r.Intn(60), Uneven: true,
		}
		for range 1 + r.Intn(5) {
			p.Lines = append(p.Lines, randomLine(r))
		}
		slope := r.Int63n(20)
		p.AllReduce = func(pipelines int) int64 { return slope * int64(pipelines-1) }
		want, got := bruteUneven(p), p.Solve(context.Background())
		if want == math.MaxInt64 {
			if got != nil {
				t.Fatalf("%+v: %+v, where there is none", p, got)
			}
			continue
		}
		if solved++; got == nil || got.Time != want || got.AtLeast != want || got.Split != nil {
			t.Fatalf("%+v: %+v, by enumeration %d", p, got, want)
		}
	}
	if solved < 100 {
		t.Errorf("only %d of 300 problems have a solution", solved)
	}
}

// TestMakeUneven: a batch that cannot be split evenly makes a plan whose equal pipelines differ by
// one microbatch.
func TestMakeUneven(t *testing.T) {
	plan, err := Make(
		context.Background(),
		equalLayers(t, 9),
		pipeline.Spec{Nodes: 6, GPUsPerNode: 1, GPUMemoryBytes: 300, Faults: 1, Microbatches: 9},
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, each := range plan.Pipelines {
		got = append(got, each.Microbatches)
	}
	if slices.Sort(got); !slices.Equal(got, []int{4, 5}) || plan.IterationTime() != plan.AtLeast {
		t.Errorf("got %v microbatches in %d, want 4 and 5 in %d", got, plan.IterationTime(), plan.AtLeast)
	}
}

func checkCombination(t *testing.T, p *Problem, c *Combination) {
	t.Helper()
	nodes, pipelines, batch := 0, 0, 0
	for i, n := range c.Counts {
		nodes += n * (p.Smallest + i)
		pipelines += n
		batch += n * c.Split[i]
	}
	if nodes != p.Nodes || pipelines < p.Pipelines || batch != p.Microbatches {
		t.Fatalf("%+v: %+v", p, c)
	}
}

// TestWorkedCombinations checks published numbers of combinations.
func TestWorkedCombinations(t *testing.T) {
	for nodes, want := range map[int][][]int{
		7:  {{0, 1, 1}, {2, 1, 0}},
		13: {{0, 3, 1}, {1, 1, 2}, {2, 3, 0}, {3, 1, 1}, {5, 1, 0}},
	} {
		var found [][]int
		everyCombination(
			&Problem{Smallest: 2, Lines: make([]pipeline.Line, 3), Pipelines: 1},
			0,
			nodes,
			nil,
			func(counts []int) {
				found = append(found, slices.Clone(counts))
			},
		)
		if !slices.EqualFunc(found, want, slices.Equal) {
			t.Errorf("%d nodes: %v, published %v", nodes, found, want)
		}
	}
}

// lines are those of a model with many equal layers: larger pipelines are faster per microbatch,
// slightly less than in proportion.
func lines(smallest, largest int) (found []pipeline.Line) {
	for n := smallest; n <= largest; n++ {
		each := int64((96+n-1)/n) * 1_000_000
		found = append(found, pipeline.Line{Fixed: int64(n-1) * each, Each: each})
	}
	return found
}

func BenchmarkThousandNodes(b *testing.B) {
	for _, each := range []struct {
		name                   string
		smallest, microbatches int
	}{{"small", 1, 4096}, {"four", 4, 4096}, {"seven", 7, 8191}, {"ten", 10, 16384}} {
		b.Run(each.name, func(b *testing.B) {
			p := &Problem{
				Smallest: each.smallest, Lines: lines(each.smallest, 96), Nodes: 1000, Pipelines: 3,
				Microbatches: each.microbatches,
				AllReduce:    func(pipelines int) int64 { return 1_000_000 * int64(math.Log2(float64(pipelines))) },
			}
			for b.Loop() {
				c := p.Solve(context.Background())
				b.ReportMetric(float64(c.Time)/float64(c.AtLeast), "of-bound")
			}
		})
	}
}
