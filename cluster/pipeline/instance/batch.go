package instance

import (
	"fmt"
	"math"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/internal/words"
)

// Share is a number of equal pipelines that take part in a batch.
type Share struct {
	Line  pipeline.Line
	Count int
}

// UnsplittableError is returned if a batch cannot be divided so that equal pipelines get equally
// many microbatches and each at least one.
type UnsplittableError struct {
	Microbatches int
	Counts       []int
	Nearest      int
}

func (e *UnsplittableError) Error() string {
	return fmt.Sprintf(
		"%s cannot be split over %s equal pipelines with at least one for each; the nearest number that can "+
			"is %d",
		pipeline.Count(e.Microbatches, "microbatch"),
		words.Cut(fmt.Sprint(e.Counts), words.MaxValue),
		e.Nearest,
	)
}

// Distribute splits a batch so that the slowest pipeline is as fast as possible; among such splits,
// so that the total work is least. It returns the microbatches of one pipeline of each share, and
// the slowest one's time.
func Distribute(shares []Share, microbatches int) (split []int, slowest int64, err error) {
	if !canSplit(shares, microbatches) {
		return nil, 0, unsplittable(shares, microbatches)
	}
	for limit := leastLimit(shares, microbatches); ; limit = nextLimit(shares, microbatches, limit) {
		if split := splitWithin(shares, microbatches, limit); split != nil {
			return split, slowestOf(shares, split), nil
		}
	}
}

// slowestOf returns the slowest pipeline's time of a split.
func slowestOf(shares []Share, split []int) (slowest int64) {
	for i, s := range shares {
		slowest = max(slowest, s.Line.At(split[i]))
	}
	return slowest
}

// capacity returns how many microbatches are done within a limit; ok is false if a pipeline cannot
// do one.
func capacity(shares []Share, limit int64) (all int, ok bool) {
	for _, s := range shares {
		most := s.Line.MaxWithin(limit)
		if most < 1 {
			return 0, false
		}
		all += min(most, pipeline.MaxMicrobatches) * s.Count
	}
	return all, true
}

// leastLimit returns the least time in which the pipelines could do the batch if it could be split
// arbitrarily.
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

// nextLimit returns the next time at which a pipeline can do one more of the remaining
// microbatches.
func nextLimit(shares []Share, microbatches int, limit int64) int64 {
	next, least := int64(math.MaxInt64), pipelines(shares)
	for _, s := range shares {
		if most := s.Line.MaxWithin(limit); most < s.limit(microbatches, least) {
			next = min(next, s.Line.At(most+1))
		}
	}
	return next
}

// pipelines returns the number of pipelines of all shares.
func pipelines(shares []Share) (all int) {
	for _, s := range shares {
		all += s.Count
	}
	return all
}

// limit returns the most microbatches for each of a share's pipelines if every other one, of so
// many pipelines in all, does one.
func (s Share) limit(microbatches, pipelines int) int { return 1 + (microbatches-pipelines)/s.Count }

// splitWithin returns a split within a time limit, or nil. It begins with what each pipeline could
// do and removes the excess where that saves most.
func splitWithin(shares []Share, microbatches int, limit int64) []int {
	all, ok := capacity(shares, limit)
	if !ok || all < microbatches {
		return nil
	}
	caps, least, excess := make([]int, len(shares)), pipelines(shares), -microbatches
	for i, s := range shares {
		caps[i] = max(0, min(s.Line.MaxWithin(limit), s.limit(microbatches, least)))
		excess += caps[i] * s.Count
	}
	if excess < 0 || microbatches < least {
		return nil
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

// unreachable marks sums that cannot be reached.
const unreachable = -1

// remove returns how many microbatches to remove from each share's pipelines so that excess are
// removed in all and each pipeline keeps one; the saved time is maximal. It is a knapsack that must
// be filled exactly.
func remove(shares []Share, caps []int, excess int) []int {
	saved := make([]int64, excess+1)
	for i := 1; i <= excess; i++ {
		saved[i] = unreachable
	}
	choices := make([][]int32, len(shares))
	for i, s := range shares {
		saved, choices[i] = s.take(saved, caps[i]-1)
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

// take adds a share to the knapsack: up to most microbatches may be removed from each of its
// pipelines. Sums that differ by whole rounds form one line, along which a sliding window keeps the
// best of the last most+1; of equal ones the latest, that is, the fewest removed.
func (s Share) take(saved []int64, most int) (next []int64, taken []int32) {
	next, taken = make([]int64, len(saved)), make([]int32, len(saved))
	round := int64(s.Count) * s.Line.Each
	var window []int // rounds, by descending worth
	worth := func(rest, rounds int) int64 { return saved[rest+rounds*s.Count] - int64(rounds)*round }
	for rest := 0; rest < s.Count && rest < len(saved); rest++ {
		window = window[:0]
		for rounds, sum := 0, rest; sum < len(saved); rounds, sum = rounds+1, sum+s.Count {
			if saved[sum] != unreachable {
				for len(window) > 0 && worth(rest, window[len(window)-1]) <= worth(rest, rounds) {
					window = window[:len(window)-1]
				}
				window = append(window, rounds)
			}
			if len(window) > 0 && window[0] < rounds-most {
				window = window[1:]
			}
			next[sum] = unreachable
			if len(window) > 0 {
				n := rounds - window[0]
				next[sum], taken[sum] = saved[sum-n*s.Count]+int64(n)*round, int32(n)
			}
		}
	}
	return next, taken
}

// canSplit reports whether a batch can be split at all.
func canSplit(shares []Share, microbatches int) bool {
	made := splittable(shares, microbatches)
	return len(made) > microbatches && made[microbatches]
}

// splittable returns for each batch up to a size whether it can be split: one microbatch for each
// pipeline, plus whole rounds of any share.
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

// unsplittable searches on both sides of a batch for one that can be split. There is one not far
// above: each additional round of a share makes one.
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
