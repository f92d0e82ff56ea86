package backfill

import (
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// profile is how many of the GPUs that certain jobs can run on are reserved, over time. Free knows
// what else is expected of them.
type profile struct {
	free     *scheduler.Free
	sample   *scheduler.Job // an example of these jobs
	reserved timeline

	// When a number of GPUs is expected to be free. An entry is valid until Free changes.
	times []cachedTime

	// Lower bounds of the start, by number of GPUs.
	bounds map[int]bounds
}

// cachedTime is a result of Free.FreeAt.
type cachedTime struct {
	at      time.Duration
	changes uint64 // Free.Changes at the time of the call, plus one
}

// resetBounds discards lower bounds that may be too high by now.
func (p *profile) resetBounds() {
	for gpus := range p.bounds {
		p.bounds[gpus] = p.bounds[gpus][:0]
	}
}

// add reserves GPUs for a time; nothing if the time is empty (a start at Forever).
func (p *profile) add(from, to time.Duration, gpus int) {
	if from < to {
		p.reserved.add(from, to, gpus)
	}
}

// earliest returns the first time, not before at, from which so many GPUs are free for so long;
// Forever if there is none, and any time that is not before limit if there is none before it.
func (p *profile) earliest(at, limit time.Duration, gpus int, long time.Duration) time.Duration {
	for {
		at = p.firstFree(at, gpus)
		if at >= limit {
			return at
		}
		end := p.firstShort(at, gpus)
		if end == scheduler.Forever || end-at >= long {
			return at
		}
		at = end
	}
}

// runtimeLimit returns how long so many GPUs can be taken from now on.
func (p *profile) runtimeLimit(now time.Duration, gpus int) time.Duration {
	if p.freeAt(gpus+p.reserved.level(p.reserved.root, now)) > now {
		return 0
	}
	if end := p.firstShort(now, gpus); end != scheduler.Forever {
		return end - now
	}
	return scheduler.Forever
}

// firstFree returns the first time, not before at, at which so many GPUs are free; Forever if there
// is none.
func (p *profile) firstFree(at time.Duration, gpus int) time.Duration {
	reserved, _, until := p.reserved.levelAt(at)
	// Expected free GPUs only increase while a level holds.
	if enough := p.freeAt(gpus + reserved); enough < until {
		return max(at, enough)
	}
	return p.firstFreeBelow(p.reserved.root, searchRange{after: at, until: scheduler.Forever, gpus: gpus})
}

// searchRange limits a search at and below a step: times after one and before another, for a number
// of GPUs plus what the steps above add.
type searchRange struct {
	after, until time.Duration
	gpus         int
}

// firstFreeBelow returns when a level first holds for long enough that so many GPUs become free;
// Forever if none does.
func (p *profile) firstFreeBelow(n int32, in searchRange) time.Duration {
	s := &p.reserved.nodes[n]
	if n == 0 || p.freeAt(in.gpus+s.least) >= in.until {
		return scheduler.Forever
	}
	below := searchRange{in.after, in.until, in.gpus + s.add}
	if s.at > in.after {
		before := below
		before.until = s.at
		if at := p.firstFreeBelow(s.left, before); at != scheduler.Forever {
			return at
		}
		to := in.until
		if s.right != 0 {
			to = p.reserved.nodes[s.right].first
		}
		if enough := p.freeAt(in.gpus + s.gpus); enough < to {
			return max(s.at, enough)
		}
	}
	return p.firstFreeBelow(s.right, below)
}

// firstShort returns the first time after at when fewer than so many GPUs are free; Forever if
// there is none.
func (p *profile) firstShort(at time.Duration, gpus int) time.Duration {
	return p.firstShortBelow(p.reserved.root, searchRange{after: at, gpus: gpus})
}

// firstShortBelow is firstShort at and below a step.
func (p *profile) firstShortBelow(n int32, in searchRange) time.Duration {
	s := &p.reserved.nodes[n]
	if n == 0 || p.freeAt(in.gpus+s.most) <= max(s.first, in.after) {
		return scheduler.Forever
	}
	below := searchRange{after: in.after, gpus: in.gpus + s.add}
	if s.at > in.after {
		if at := p.firstShortBelow(s.left, below); at != scheduler.Forever {
			return at
		}
		if p.freeAt(in.gpus+s.gpus) > s.at {
			return s.at
		}
	}
	return p.firstShortBelow(s.right, below)
}

// freeAt returns when so many GPUs are expected to be free; Forever if never.
func (p *profile) freeAt(gpus int) time.Duration {
	if gpus <= 0 { // a step in the past
		return 0
	}
	for len(p.times) <= gpus {
		p.times = append(p.times, cachedTime{})
	}
	a := &p.times[gpus]
	if changes := p.free.Changes() + 1; a.changes != changes {
		at, ok := p.free.FreeAt(p.sample, gpus)
		if !ok {
			at = scheduler.Forever
		}
		*a = cachedTime{at, changes}
	}
	return a.at
}
