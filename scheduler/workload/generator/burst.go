package generator

import (
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// defaultBurst is Blox's burst: in two of six hours, four times as many jobs arrive, of ten minutes
// to an hour.
func defaultBurst() Burst {
	return Burst{Period: 6 * time.Hour, Lasting: 2 * time.Hour, Factor: 4, Lengths: Uniform(10*time.Minute, time.Hour)}
}

// bursting is the generator "burst": a steady stream of jobs, and many short ones on top at regular
// times. The rate is the average over all times.
func bursting(p Parameters) generator {
	b := p.Burst
	if b.unset() {
		b = defaultBurst()
	}
	share := b.Lasting.Seconds() / b.Period.Seconds()
	extra := b.Factor * share // short jobs for each of the others
	c := &bursts{
		Burst: b, arrivals: newStream(p.Seed, forArrivals), which: newStream(p.Seed, forBursts),
	}
	lengths, sizes := newStream(p.Seed, forLengths), newStream(p.Seed, forSizes)
	return generator{
		work:   p.Sizes.mean() * (p.Lengths.mean + extra*b.Lengths.mean) / (1 + extra),
		arrive: func(rate float64, last time.Duration) time.Duration { return c.next(rate/(1+extra), last) },
		fill: func(j *cluster.Job) {
			law := p.Lengths
			if c.short {
				law = b.Lengths
			}
			j.Length = law.next(lengths)
			setSize(j, p.Sizes.next(sizes))
		},
	}
}

// unset reports whether no field of the burst is set.
func (b Burst) unset() bool {
	return b.Period == 0 && b.Lasting == 0 && b.Factor == 0 && b.Lengths.draw == nil
}

// valid reports whether the burst is consistent.
func (b Burst) valid() bool {
	return b.Lasting > 0 && b.Period >= b.Lasting && b.Factor > 0 && b.Lengths.draw != nil
}

// bursts generates arrivals whose rate jumps.
type bursts struct {
	Burst
	arrivals, which *stream
	short           bool // the last one belongs to a burst
}

// next returns the next arrival: time uses up an exponential variable, faster during a burst.
func (b *bursts) next(rate float64, at time.Duration) time.Duration {
	left := b.arrivals.exponential()
	for {
		within := at % b.Period
		now, change := rate, b.Period-within
		if within < b.Lasting {
			now, change = rate*(1+b.Factor), b.Lasting-within
		}
		if used := now * change.Seconds(); used < left {
			left -= used
			if at > math.MaxInt64-2*b.Period {
				return -1
			}
			at += change
			continue
		}
		b.short = within < b.Lasting && b.which.uniform() < b.Factor/(1+b.Factor)
		return addSeconds(at, left/now)
	}
}
