package order

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// law is a distribution of lengths in whole seconds: law[i] is one of equally likely ones.
type law []int

func (l law) lengths() []time.Duration {
	lengths := make([]time.Duration, len(l))
	for i, length := range l {
		lengths[i] = seconds(length)
	}
	return lengths
}

// hazard returns how likely a job with service a ends within the next second.
func (l law) hazard(a int) (p float64, ok bool) {
	longer, ends := 0, 0
	for _, length := range l {
		if length > a {
			longer++
		}
		if length == a+1 {
			ends++
		}
	}
	if longer == 0 {
		return 0, false
	}
	return float64(ends) / float64(longer), true
}

// index is the Gittins index by its definition: the price of a second of service at which the
// optimal value of a job with service a is just zero, if its end pays 1 and it may be abandoned at
// any time.
func (l law) index(a int) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		price := (low + high) / 2
		if l.worth(a, price) > 1e-15 {
			low = price
		} else {
			high = price
		}
	}
	return low
}

// worth is the value of optimal stopping, by backward induction.
func (l law) worth(a int, price float64) float64 {
	p, ok := l.hazard(a)
	if !ok {
		return 0
	}
	return max(0, p+(1-p)*l.worth(a+1, price)-price)
}

func someLaw(r *rand.Rand) law {
	l := make(law, 1+r.IntN(5))
	for i := range l {
		l[i] = 1 + r.IntN(8)
	}
	return l
}

func TestGittinsIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 300 {
		l := someLaw(r)
		g := NewGittins(l.lengths(), false)
		for a := 0; ; a++ {
			value, _, holds := g.inverse(float64(a))
			if _, ok := l.hazard(a); !ok {
				if holds != 0 {
					t.Fatalf("%v after %d s: nothing is longer, but the index is 1/%v", l, a, value)
				}
				break
			}
			if want := l.index(a); math.Abs(1/value-want) > 1e-9 {
				t.Fatalf("%v after %d s: index %v, want %v", l, a, 1/value, want)
			}
		}
	}
}

// TestGittinsIsOptimal compares the expected completion times under Gittins with the minimum over
// all policies that do not know the lengths, on one GPU with a decision every second.
func TestGittinsIsOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 60 {
		l := someLaw(r)
		g := NewGittins(l.lengths(), false)
		any := cost(l, func([]int) []int { return []int{0, 1, 2} })
		got := cost(l, func(had []int) []int { return []int{g.first(had)} })
		if math.Abs(any-got) > 1e-9 {
			t.Fatalf("%v: Gittins expects %v, the best policy %v", l, got, any)
		}
	}
}

// first returns the job that Gittins serves next.
func (g Gittins) first(had []int) int {
	var made []schedulertest.Job
	for i, a := range had {
		if a >= 0 {
			made = append(
				made,
				schedulertest.Job{
					Job:      cluster.Job{ID: cluster.JobID(i), GPUs: 1},
					Phase:    scheduler.Waiting,
					Attained: seconds(a),
				},
			)
		}
	}
	v := schedulertest.NewView(0, []cluster.Node{{GPUs: 1}}, made...)
	first, least := 0, scheduler.Rank{Tier: math.MaxInt}
	for j := range v.Waiting() {
		if rank := g.Rank(v, j); rank.Compare(least) < 0 {
			first, least = int(j.ID()), rank
		}
	}
	return first
}

// cost returns the least expected sum of three jobs' completion times, with the given choices; had
// is -1 for an ended job.
func cost(l law, choices func(had []int) []int) float64 {
	memory := map[string]float64{}
	var from func(had []int) float64
	from = func(had []int) float64 {
		key := fmt.Sprint(had)
		if known, ok := memory[key]; ok {
			return known
		}
		open := 0.0
		for _, a := range had {
			if a >= 0 {
				open++
			}
		}
		if open == 0 {
			return 0
		}
		least := math.Inf(+1)
		for _, i := range choices(had) {
			if had[i] < 0 {
				continue
			}
			p, _ := l.hazard(had[i])
			ends, goes := append([]int(nil), had...), append([]int(nil), had...)
			ends[i] = -1
			goes[i]++
			expected := open
			if p > 0 {
				expected += p * from(ends)
			}
			if p < 1 {
				expected += (1 - p) * from(goes)
			}
			least = min(least, expected)
		}
		memory[key] = least
		return least
	}
	return from([]int{0, 0, 0})
}

// TestGittinsLines follows a running job from one Until to the next, between which the inverse
// index must be the reported line.
func TestGittinsLines(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 200 {
		l := someLaw(r)
		g := NewGittins(l.lengths(), true)
		at := func(now time.Duration) scheduler.Rank {
			job := schedulertest.Job{
				Job:   cluster.Job{GPUs: 2},
				Phase: scheduler.Running,
				On:    cluster.Placement{{Index: 0}, {Index: 1}},
			}
			v := schedulertest.NewView(now, []cluster.Node{{GPUs: 2}}, job)
			return g.Rank(v, v.Job(0))
		}
		now, asked := time.Duration(0), 0
		for {
			rank := at(now)
			if rank.Until == 0 {
				break
			}
			for part := range 5 {
				later := now + (rank.Until-now)*time.Duration(part)/5
				line, then := rank.Value+rank.Growth*(later-now).Seconds(), at(later)
				if then.Tier != rank.Tier || math.Abs(line-then.Value) > 1e-6 {
					t.Fatalf("%v: ranked at %v to be %v at %v, but is %v", l, now, line, later, then.Value)
				}
			}
			if asked++; asked > 50 {
				t.Fatalf("%v: asked %d times until %v", l, asked, now)
			}
			now = rank.Until
		}
	}
}

func TestGittinsManyLengths(t *testing.T) {
	var lengths []time.Duration
	for i := range 10_000 {
		lengths = append(lengths, seconds(i+1))
	}
	few, all := NewGittins(lengths, false), Gittins{}
	for i := range lengths {
		all.lengths = append(all.lengths, float64(i+1))
	}
	for _, had := range []float64{0, 100, 5000, 9000} {
		a, _, _ := few.inverse(had)
		b, _, _ := all.inverse(had)
		if math.Abs(a-b) > 0.1*b {
			t.Errorf("after %v s: one over the index is %v with quantiles, %v with all lengths", had, a, b)
		}
	}
	if typical := NewGittins(nil, false); len(typical.lengths) != 50 || typical.lengths[0] < 60*math.Pow(10, 1.5) ||
		typical.lengths[49] > 60e4 {
		t.Errorf("typical lengths are %v", typical.lengths)
	}
}
