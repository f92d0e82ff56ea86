package instance

import (
	"fmt"
	"math"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// Share is a number of equal pipelines that take part in a batch.
type Share struct {
	Line  pipeline.Line
	Count int
}

// UnsplittableError says that a batch cannot be divided so that equal pipelines get equally much and each at least one microbatch.
type UnsplittableError struct {
	Microbatches int
	Counts       []int
	Nearest      int
}

func (e *UnsplittableError) Error() string {
	return fmt.Sprintf("%d microbatches cannot be split over %v equal pipelines with at least one for each; the nearest number that can is %d",
		e.Microbatches, e.Counts, e.Nearest)
}

// Distribute splits a batch so that the slowest pipeline is done as early as can be; of the ways to do that, so that all pipelines
// together work least. What it answers is for each share the microbatches of one pipeline, and the slowest one's time.
func Distribute(shares []Share, microbatches int) (split []int, slowest int64, err error) {
	if !splits(shares, microbatches) {
		return nil, 0, unsplittable(shares, microbatches)
	}
	for limit := leastLimit(shares, microbatches); ; limit = nextLimit(shares, limit) {
		if split := within(shares, microbatches, limit); split != nil {
			return split, slowestOf(shares, split), nil
		}
	}
}

func slowestOf(shares []Share, split []int) (slowest int64) {
	for i, s := range shares {
		slowest = max(slowest, s.Line.At(split[i]))
	}
	return slowest
}

// capacity is how many microbatches are done within a limit; ok is false where some pipeline cannot do one.
func capacity(shares []Share, limit int64) (all int, ok bool) {
	for _, s := range shares {
		most := s.Line.Most(limit)
		if most < 1 {
			return 0, false
		}
		all += min(most, pipeline.MostMicrobatches) * s.Count
	}
	return all, true
}

// leastLimit is the least time in which the pipelines could do the batch if it could be split at will.
func leastLimit(shares []Share, microbatches int) int64 {
	low, high := int64(0), int64(math.MaxInt64/2)
	for low < high {
		middle := low + (high-low)/2
		if all, ok := capacity(shares, middle); ok && all >= microbatches {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// nextLimit is the next time in which some pipeline can do one microbatch more.
func nextLimit(shares []Share, limit int64) int64 {
	next := int64(math.MaxInt64)
	for _, s := range shares {
		next = min(next, s.Line.At(s.Line.Most(limit)+1))
	}
	return next
}

// within is a split in which nobody takes longer than a limit, nil where there is none. It begins with what each could do and takes away
// what is too much, where it saves most.
func within(shares []Share, microbatches int, limit int64) []int {
	all, ok := capacity(shares, limit)
	if !ok || all < microbatches {
		return nil
	}
	excess := all - microbatches
	caps := make([]int, len(shares))
	for i, s := range shares {
		caps[i] = min(s.Line.Most(limit), pipeline.MostMicrobatches)
	}
	removed := remove(shares, caps, excess)
	if removed == nil {
		return nil
	}
	for i := range caps {
		caps[i] -= removed[i]
	}
	return caps
}

// remove finds how many microbatches to take from each share's pipelines so that excess go in all and one is left to each; the most time
// is saved. It is a knapsack that must be filled to the brim.
func remove(shares []Share, caps []int, excess int) []int {
	const unreachable = -1
	saved := make([]int64, excess+1)
	for i := 1; i <= excess; i++ {
		saved[i] = unreachable
	}
	choices := make([][]int32, len(shares))
	for i, s := range shares {
		next := make([]int64, excess+1)
		choices[i] = make([]int32, excess+1)
		for sum := range next {
			next[sum] = unreachable
			for n := 0; n < caps[i] && n*s.Count <= sum; n++ {
				before := saved[sum-n*s.Count]
				if before == unreachable {
					continue
				}
				if value := before + int64(n*s.Count)*s.Line.Each; value > next[sum] {
					next[sum], choices[i][sum] = value, int32(n)
				}
			}
		}
		saved = next
	}
	if saved[excess] == unreachable {
		return nil
	}
	removed := make([]int, len(shares))
	for i := len(shares) - 1; i >= 0; i-- {
		removed[i] = int(choices[i][excess])
		excess -= removed[i] * shares[i].Count
	}
	return removed
}

// splits reports whether a batch can be split at all.
func splits(shares []Share, microbatches int) bool {
	made := splittable(shares, microbatches)
	return len(made) > microbatches && made[microbatches]
}

// splittable tells for each batch up to a size whether it can be split: one for each pipeline, and then whole rounds of any share.
func splittable(shares []Share, upTo int) []bool {
	least := 0
	for _, s := range shares {
		least += s.Count
	}
	if least > upTo {
		return nil
	}
	made := make([]bool, upTo+1)
	made[least] = true
	for _, s := range shares {
		for sum := least + s.Count; sum <= upTo; sum++ {
			made[sum] = made[sum] || made[sum-s.Count]
		}
	}
	return made
}

// unsplittable looks on both sides of a batch for one that can be split. One more round of any share is one, so it is not far above.
func unsplittable(shares []Share, microbatches int) error {
	e := &UnsplittableError{Microbatches: microbatches}
	least := 0
	for _, s := range shares {
		e.Counts = append(e.Counts, s.Count)
		least += s.Count
	}
	made := splittable(shares, max(microbatches, 0)+least)
	for away := 0; ; away++ {
		for _, candidate := range []int{microbatches - away, microbatches + away} {
			if candidate >= 0 && candidate < len(made) && made[candidate] {
				e.Nearest = candidate
				return e
			}
		}
	}
}
