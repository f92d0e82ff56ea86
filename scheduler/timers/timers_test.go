package timers

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestAgainstAList adds timers, invalidates some, and compares what expires with a sorted list.
func TestAgainstAList(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		marks := make([]int, 20)
		valid := func(a Timer[int]) bool { return marks[a.Subject] == a.Version }
		c := NewQueue(valid)
		var list []Timer[int]
		for now := range time.Duration(200) {
			for range r.IntN(12) {
				who := r.IntN(len(marks))
				marks[who]++
				a := Timer[int]{At: now + time.Duration(r.IntN(40)), Subject: who, Number: int64(who), Version: marks[who]}
				c.Add(a, 1)
				list = append(list, a)
			}
			list = slices.DeleteFunc(list, func(a Timer[int]) bool { return !valid(a) })
			slices.SortFunc(
				list,
				func(a, b Timer[int]) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Number, b.Number)) },
			)
			at, ok := c.Next()
			if ok != (len(list) > 0) || ok && at != list[0].At {
				t.Fatalf("seed %d at %d: next is %v, %v; the list has %v", seed, now, at, ok, list)
			}
			for len(list) > 0 && list[0].At <= now {
				if got, ok := c.PopDue(now); !ok || got != list[0] {
					t.Fatalf("seed %d at %d: %v, %v went off, not %v", seed, now, got, ok, list[0])
				}
				list = list[1:]
			}
			if got, ok := c.PopDue(now); ok {
				t.Fatalf("seed %d at %d: %v went off, which is not in the list", seed, now, got)
			}
		}
	}
}

// TestInvalidTimersAreRemoved: one subject's timers do not accumulate, however often it is set
// again.
func TestInvalidTimersAreRemoved(t *testing.T) {
	mark := 0
	c := NewQueue(func(a Timer[string]) bool { return a.Version == mark })
	for range 10_000 {
		mark++
		c.Add(Timer[string]{At: time.Hour, Subject: "job", Version: mark}, 1)
	}
	if kept := len(c.run) - c.done + len(c.heap); kept > 100 {
		t.Errorf("%d timers are kept, one of which is valid", kept)
	}
	if at, ok := c.Next(); !ok || at != time.Hour {
		t.Errorf("the valid one is at %v, %v", at, ok)
	}
}
