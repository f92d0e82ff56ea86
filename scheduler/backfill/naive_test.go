package backfill_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// textbook is a cluster of GPUs with jobs, without nodes, types or indices.
type textbook struct {
	free    int
	now     time.Duration
	waiting []cluster.Job
	running []run
	starts  map[cluster.JobID]time.Duration
	// promised are the starts that waiting jobs were promised.
	promised map[cluster.JobID]time.Duration
	early    bool // a run has ended before it was expected
}

type run struct {
	job       cluster.Job
	expected  time.Duration
	really    time.Duration
	beginning time.Duration
}

// playTextbook runs jobs with one of the two algorithms below, at every arrival and end.
func playTextbook(gpus int, jobs []cluster.Job, decide func(*textbook)) []time.Duration {
	b := &textbook{
		free: gpus, starts: map[cluster.JobID]time.Duration{}, promised: map[cluster.JobID]time.Duration{},
	}
	left := slices.Clone(jobs)
	for len(left)+len(b.waiting)+len(b.running) > 0 {
		happened := false
		b.running = slices.DeleteFunc(b.running, func(r run) bool {
			if r.really == b.now {
				b.free += r.job.GPUs
				b.early = b.early || r.expected > b.now
				happened = true
			}
			return r.really == b.now
		})
		for len(left) > 0 && left[0].Submit == b.now {
			b.waiting = append(b.waiting, left[0])
			left, happened = left[1:], true
		}
		for _, at := range b.promised {
			happened = happened || at == b.now
		}
		if happened {
			decide(b)
		}
		b.now++
	}
	var starts []time.Duration
	for _, j := range jobs {
		starts = append(starts, b.starts[j.ID])
	}
	return starts
}

func (b *textbook) start(i int) {
	j := b.waiting[i]
	b.waiting = slices.Delete(slices.Clone(b.waiting), i, i+1)
	b.free -= j.GPUs
	b.starts[j.ID] = b.now
	b.running = append(b.running, run{j, b.now + j.Estimate, b.now + j.Length, b.now})
}

// postpone doubles the expected length of overdue runs, and reports whether there are any.
func (b *textbook) postpone() (overdue bool) {
	for i := range b.running {
		if r := &b.running[i]; r.expected <= b.now {
			r.expected = b.now + b.now - r.beginning
			overdue = true
		}
	}
	return overdue
}

// easy is EASY as in Lifka's paper, computed from scratch each time.
func easy(b *textbook) {
	for len(b.waiting) > 0 && b.waiting[0].GPUs <= b.free {
		b.start(0)
	}
	for {
		if len(b.waiting) == 0 {
			return
		}
		b.postpone()
		ends := slices.Clone(b.running)
		sort.SliceStable(ends, func(i, k int) bool { return ends[i].expected < ends[k].expected })
		shadow, there := b.now, b.free
		for _, r := range ends {
			if there < b.waiting[0].GPUs || r.expected == shadow {
				there += r.job.GPUs
				shadow = r.expected
			}
		}
		extra := there - b.waiting[0].GPUs
		i := slices.IndexFunc(b.waiting[1:], func(j cluster.Job) bool {
			return j.GPUs <= b.free && (b.now+j.Estimate <= shadow || j.GPUs <= extra)
		})
		if i < 0 {
			return
		}
		b.start(i + 1)
	}
}

// conservative is conservative backfilling as in Mu'alem and Feitelson's paper, for the first depth
// waiting jobs, by trying every time: a job gets a start when it arrives, and keeps it. When a run
// ends early, each job in turn is taken out of the schedule and put back as early as possible. The
// paper ends runs at their estimates. Here a run goes on, and then all starts are decided again.
func conservative(depth int) func(*textbook) {
	return func(b *textbook) {
		if len(b.waiting) > 0 && b.postpone() {
			clear(b.promised)
		}
		starts := 0
		for i := 0; i < len(b.waiting); {
			j := b.waiting[i]
			at, had := b.promised[j.ID]
			if !had || b.early {
				delete(b.promised, j.ID)
				for earliest := b.now; !had || earliest < at; earliest++ {
					if b.fits(j, earliest) {
						at = earliest
						break
					}
				}
			}
			switch {
			case at == b.now:
				delete(b.promised, j.ID)
				b.start(i)
				continue
			case had || depth == 0 || starts < depth:
				b.promised[j.ID] = at
			}
			starts++
			i++
		}
		b.early = false
	}
}

// fits reports whether a job that starts at a time gets its GPUs for as long as it is expected to
// run.
func (b *textbook) fits(j cluster.Job, at time.Duration) bool {
	for t := at; t < at+j.Estimate; t++ {
		there := b.free
		for _, r := range b.running {
			if r.expected <= t {
				there += r.job.GPUs
			}
		}
		for _, other := range b.waiting {
			if from, ok := b.promised[other.ID]; ok && from <= t && t < from+other.Estimate {
				there -= other.GPUs
			}
		}
		if there < j.GPUs {
			return false
		}
	}
	return true
}

// TestSameAsTextbook compares every start with the algorithms above, with estimates that are exact,
// too long, and wrong in both directions.
func TestSameAsTextbook(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mine   func() scheduler.Backfiller
		theirs func(*textbook)
	}{
		{"easy", func() scheduler.Backfiller { return backfill.NewEASY() }, easy},
		{
			"conservative:1", func() scheduler.Backfiller { return backfill.NewConservative(1) },
			conservative(1),
		},
		{"conservative", func() scheduler.Backfiller { return backfill.NewConservative(0) }, conservative(0)},
		{"conservative:3", func() scheduler.Backfiller { return backfill.NewConservative(3) }, conservative(3)},
	} {
		for _, estimates := range []string{"right", "too long", "wrong"} {
			for name, order := range orders {
				t.Run(fmt.Sprint(tt.name, ", estimates ", estimates, ", ", name), func(t *testing.T) {
					overtook := 0
					for seed := range uint64(10) {
						r := rand.New(rand.NewPCG(seed, 3))
						nodes := oneKind(1+r.IntN(4), 4)
						jobs := workload(r, 40, 4*len(nodes), estimates)
						policies := with(tt.mine())
						policies.Order = order
						got, want := play(
							t,
							nodes,
							jobs,
							policies,
							nothing,
						), playTextbook(
							4*len(nodes),
							jobs,
							tt.theirs,
						)
						if !slices.Equal(got, want) {
							t.Fatalf("seed %d: starts\n%v, textbook\n%v", seed, got, want)
						}
						for i := 1; i < len(got); i++ {
							if got[i] < got[i-1] {
								overtook++
							}
						}
					}
					if overtook == 0 {
						t.Error("no job overtook another: the test shows nothing")
					}
				})
			}
		}
	}
}
