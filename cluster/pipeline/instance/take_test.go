package instance

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// naive tries every number of rounds for every sum.
func (s Share) naive(saved []int64, most int) (next []int64, taken []int32) {
	next, taken = make([]int64, len(saved)), make([]int32, len(saved))
	for sum := range saved {
		next[sum] = unreachable
		for n := 0; n <= most && n*s.Count <= sum; n++ {
			if before := saved[sum-n*s.Count]; before != unreachable && before+int64(n*s.Count)*s.Line.Each > next[sum] {
				next[sum], taken[sum] = before+int64(n*s.Count)*s.Line.Each, int32(n)
			}
		}
	}
	return next, taken
}

func TestTakeAgainstBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		saved := make([]int64, 1+random.IntN(40))
		for i := range saved {
			saved[i] = random.Int64N(30) - 6
			if saved[i] < 0 {
				saved[i] = unreachable
			}
		}
		s := Share{pipeline.Line{Each: random.Int64N(4)}, 1 + random.IntN(5)}
		most := random.IntN(8)
		next, taken := s.take(saved, most)
		wantNext, wantTaken := s.naive(saved, most)
		if !slices.Equal(next, wantNext) || !slices.Equal(taken, wantTaken) {
			t.Fatalf("%v, %+v, %d:\n%v %v\nwanted\n%v %v", saved, s, most, next, taken, wantNext, wantTaken)
		}
	}
}

// TestDistributeFarApart: with very different pipelines the slowest determines the time, and the
// excess is large; only what the others leave counts.
func TestDistributeFarApart(t *testing.T) {
	split, slowest, err := Distribute([]Share{{pipeline.Line{Each: 1}, 1000}, {pipeline.Line{Each: 1_000_000}, 1}}, 1<<16)
	if err != nil || split[0]*1000+split[1] != 1<<16 || slowest != int64(split[1])*1_000_000 {
		t.Fatal(split, slowest, err)
	}
	if want := 1 << 16 % 1000; split[1] != want {
		t.Fatalf("the slow one gets %d, wanted the least that leaves a multiple of 1000, %d", split[1], want)
	}
}
