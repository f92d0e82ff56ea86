package backfill

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// TestTimeline compares a timeline with a table of every time.
func TestTimeline(t *testing.T) {
	type stay struct {
		from, to time.Duration
		gpus     int
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var line timeline
		line.reset()
		table, past := make([]int, 200), 0
		var stays []stay
		enter := func(s stay, sign int) {
			line.add(s.from, s.to, sign*s.gpus)
			for at := s.from; at < s.to; at++ {
				table[at] += sign * s.gpus
			}
		}
		for range 300 {
			switch what := r.IntN(8); {
			case what == 0 && past < 150:
				past += r.IntN(3)
				line.expire(time.Duration(past))
			case what < 4 && len(stays) > 0:
				i := r.IntN(len(stays))
				enter(stays[i], -1)
				stays[i] = stays[len(stays)-1]
				stays = stays[:len(stays)-1]
			default:
				from := past + r.IntN(199-past)
				s := stay{time.Duration(from), time.Duration(from + 1 + r.IntN(199-from)), 1 + r.IntN(5)}
				stays = append(stays, s)
				enter(s, +1)
			}
			for at := past; at < 200; at++ {
				gpus, since, after := line.levelAt(time.Duration(at))
				if gpus != table[at] || line.level(line.root, time.Duration(at)) != gpus {
					t.Fatalf("seed %d: %d at %d, not %d", seed, gpus, at, table[at])
				}
				if int(since) > past && table[since] == table[since-1] {
					t.Fatalf("seed %d: a step at %d from %d to the same", seed, since, table[since])
				}
				next := at + 1
				for next < 200 && table[next] == table[at] {
					next++
				}
				if int(after) != next && (next < 200 || after != scheduler.Forever) {
					t.Fatalf("seed %d: the step after %d is at %d, not %d", seed, at, after, next)
				}
			}
		}
		if used := len(line.nodes) - len(line.spare); used > 200 {
			t.Errorf("seed %d: %d steps were not freed", seed, used)
		}
	}
}
