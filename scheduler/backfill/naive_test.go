package backfill_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
)

// textbook is a cluster of GPUs with jobs, without nodes, types or indices.
type textbook struct {
	free    int
	now     time.Duration
	waiting []cluster.Job
	running []run
	starts  map[cluster.JobID]time.Duration
}

type run struct {
	job       cluster.Job
	expected  time.Duration
	really    time.Duration
	beginning time.Duration
}

// playTextbook runs jobs with one of the two algorithms below, at every arrival and end.
func playTextbook(gpus int, jobs []cluster.Job, decide func(*textbook)) []time.Duration {
	b := &textbook{free: gpus, starts: map[cluster.JobID]time.Duration{}}
	left := slices.Clone(jobs)
	for len(left)+len(b.waiting)+len(b.running) > 0 {
		happened := false
		b.running = slices.DeleteFunc(b.running, func(r run) bool {
			if r.really == b.now {
				b.free += r.job.GPUs
				happened = true
			}
			return r.really == b.now
		})
		for len(left) > 0 && left[0].Submit == b.now {
			b.waiting = append(b.waiting, left[0])
			left, happened = left[1:], true
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

// postpone doubles the expected length of overdue runs.
func (b *textbook) postpone() {
	for i := range b.running {
		if r := &b.running[i]; r.expected <= b.now {
			r.expected = b.now + b.now - r.beginning
		}
	}
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

// conservative makes reservations for the first depth waiting jobs, computed from scratch by trying
// every time.
func conservative(depth int) func(*textbook) {
	return func(b *textbook) {
		type slot struct {
			from, to time.Duration
			gpus     int
		}
		var slots []slot
		fits := func(j cluster.Job, at time.Duration) bool {
			for t := at; t < at+j.Estimate; t++ {
				there := b.free
				for _, r := range b.running {
					if r.expected <= t {
						there += r.job.GPUs
					}
				}
				for _, s := range slots {
					if s.from <= t && t < s.to {
						there -= s.gpus
					}
				}
				if there < j.GPUs {
					return false
				}
			}
			return true
		}
		for i := 0; i < len(b.waiting); {
			j := b.waiting[i]
			if j.GPUs > b.free && len(slots) == 0 {
				b.postpone()
			}
			if j.GPUs <= b.free && (len(slots) == 0 || fits(j, b.now)) {
				b.start(i)
				continue
			}
			i++
			if depth > 0 && len(slots) == depth {
				continue
			}
			at := b.now
			for !fits(j, at) {
				at++
			}
			slots = append(slots, slot{at, at + j.Estimate, j.GPUs})
		}
	}
}

// TestSameAsTextbook compares every start with the algorithms above, with estimates that are exact,
// too long, and wrong in both directions.
func TestSameAsTextbook(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mine   func() scheduler.Backfiller
		theirs func(*textbook)
	}{
		{"easy", func() scheduler.Backfiller { return backfill.EASY() }, easy},
		{
			"easy is conservative to a depth of one", func() scheduler.Backfiller { return backfill.Conservative(1) },
			conservative(1),
		},
		{"conservative", func() scheduler.Backfiller { return backfill.Conservative(0) }, conservative(0)},
		{"conservative:3", func() scheduler.Backfiller { return backfill.Conservative(3) }, conservative(3)},
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
