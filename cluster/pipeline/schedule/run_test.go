package schedule

import (
	"context"
	"math/rand"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/template"
)

func random(r *rand.Rand, stages int, spread float64) (work []Work) {
	for range stages {
		w := int64(10_000 * (1 + spread*r.Float64()))
		work = append(work, Work{w / 3, w - w/3})
	}
	return work
}

// formula is T as in the paper.
func formula(work []Work, microbatches int) int64 {
	t := &pipeline.Template{Microbatches: microbatches}
	for _, w := range work {
		t.Stages = append(t.Stages, pipeline.Stage{Time: w.Forward + w.Backward})
	}
	return t.Time()
}

func TestEqualStages(t *testing.T) {
	for stages := 1; stages <= 9; stages++ {
		work := make([]Work, stages)
		for i := range work {
			work[i] = Work{10, 20}
		}
		for _, microbatches := range []int{stages, 4 * stages, 4*stages + 3} {
			_, makespan := Run(work, microbatches)
			if want := int64(30 * (microbatches + stages - 1)); makespan != want ||
				formula(work, microbatches) != want {
				t.Errorf(
					"%d stages, %d microbatches: %d, by the formula %d, want %d",
					stages,
					microbatches,
					makespan,
					formula(work, microbatches),
					want,
				)
			}
		}
		// W(5 - 1/S), with W the work of all stages.
		if got, want := formula(work, 4*stages), int64(30*(5*stages-1)); got != want {
			t.Errorf("%d stages: %d, in closed form %d", stages, got, want)
		}
	}
}

// TestFormulaIsALowerBound checks that the formula is a lower bound, and close for nearly equal
// stages: at most 2.4 % below was seen for stages that differ by half.
func TestFormulaIsALowerBound(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, each := range []struct{ spread, most float64 }{{0.05, 0.005}, {0.5, 0.03}, {2, 0.06}} {
		worst, above := 0.0, 0
		for range 500 {
			work := random(r, 2+r.Intn(7), each.spread)
			_, makespan := Run(work, 4*len(work))
			off := 1 - float64(formula(work, 4*len(work)))/float64(makespan)
			worst = max(worst, off)
			if off < 0 {
				above++
			}
		}
		t.Logf("spread %g: at most %.2f %% too low", each.spread, 100*worst)
		if above > 0 || worst > each.most {
			t.Errorf("spread %g: %d times above the schedule, at most %.2f %% below", each.spread, above, 100*worst)
		}
	}
}

// TestMoreWorkTakesLonger: unlike the formula, the schedule never gets shorter with more work.
func TestMoreWorkTakesLonger(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 500 {
		work := random(r, 1+r.Intn(6), 2)
		_, before := Run(work, 12)
		work[r.Intn(len(work))].Forward += r.Int63n(5000)
		if _, after := Run(work, 12); after < before {
			t.Fatalf("%v: %d, and %d before a stage grew", work, after, before)
		}
	}
}

// TestOrder checks that no stage does two passes at once, and that each pass starts after its
// inputs.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 100 {
		work := random(r, 1+r.Intn(6), 2)
		microbatches := 1 + r.Intn(12)
		ops, _ := Run(work, microbatches)
		if len(ops) != 2*microbatches*len(work) {
			t.Fatalf("%d passes", len(ops))
		}
		ends := map[[3]int]int64{}
		for _, op := range ops {
			ends[[3]int{op.Stage, op.Microbatch, direction(op)}] = op.To
		}
		for i, op := range ops {
			if i > 0 && ops[i-1].Stage == op.Stage && ops[i-1].To > op.From {
				t.Fatalf("%+v begins before %+v ends", op, ops[i-1])
			}
			needs := [3]int{op.Stage - 1, op.Microbatch, 0}
			if op.Backward {
				needs = [3]int{op.Stage + 1, op.Microbatch, 1}
				if op.Stage == len(work)-1 {
					needs = [3]int{op.Stage, op.Microbatch, 0}
				}
			}
			if ends[needs] > op.From {
				t.Fatalf("%+v begins before %v has ended", op, needs)
			}
		}
	}
}

func direction(op Op) int {
	if op.Backward {
		return backward
	}
	return forward
}

// TestTemplates checks that the schedule takes as long as the template says, to 4 % if stages
// differ by at most half. A few layers on nearly as many nodes give stages that differ more, and
// the search optimizes the formula.
func TestTemplates(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	for range 50 {
		var layers []pipeline.Layer
		for range 24 {
			layers = append(
				layers,
				pipeline.Layer{
					Forward:  time.Duration(1000 + r.Intn(500)),
					Backward: time.Duration(2000 + r.Intn(1000)),
				},
			)
		}
		p, err := pipeline.NewProfile(layers)
		if err != nil {
			t.Fatal(err)
		}
		found, err := template.Search{Profile: p, GPUsPerNode: 1}.Templates(context.Background(), 1, 12)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range found {
			_, makespan := Run(WorkOf(p, each), each.Microbatches)
			most := 0.04
			if spread(each) > 1.5 {
				most = 0.07
			}
			if off := 1 - float64(each.Time())/float64(makespan); off < 0 || off > most {
				t.Errorf(
					"%d nodes, spread %.2f: T %d, the schedule %d",
					each.Nodes,
					spread(each),
					each.Time(),
					makespan,
				)
			}
		}
	}
}

// spread is the ratio of the slowest stage to the fastest.
func spread(t *pipeline.Template) float64 {
	least, most := t.Stages[0].Time, t.Stages[0].Time
	for _, s := range t.Stages {
		least, most = min(least, s.Time), max(most, s.Time)
	}
	return float64(most) / float64(least)
}
