package hostcopy

import (
	"math/rand"
	"testing"
)

// TestSlots compares places with a table of all pages: each page that was added has one place, in
// the order of addresses, and a range is split into those that have one and the others.
func TestSlots(t *testing.T) {
	for seed := range int64(200) {
		random := rand.New(rand.NewSource(seed))
		var s slots
		places := map[uint64]uint64{}
		next := uint64(0)
		for range 30 {
			start := uint64(random.Intn(200))
			end := start + 1 + uint64(random.Intn(5))
			last := uint64(0)
			for page := range places {
				last = max(last, page+1)
			}
			added, ok := s.add(start, end)
			if ok != (start >= last) {
				t.Fatalf("seed %d: [%d, %d) after %d is added: %v", seed, start, end, last, ok)
			}
			if !ok {
				continue
			}
			for page := start; page < end; page++ {
				if got := added.offset + page - start; got != next {
					t.Fatalf("seed %d: page %d is at %d, want %d", seed, page, got, next)
				}
				places[page] = next
				next++
			}
		}
		for range 100 {
			start := uint64(random.Intn(210))
			end := start + uint64(random.Intn(30))
			at := start
			err := s.split(start, end, func(r run) {
				for page := r.start; page < r.end; page++ {
					if place, known := places[page]; !known || page != at || place != r.offset+page-r.start {
						t.Fatalf("seed %d: page %d of [%d, %d) is at %d: %+v", seed, page, start, end, place, r)
					}
					at++
				}
			}, func(from, to uint64) error {
				for page := from; page < to; page++ {
					if _, known := places[page]; known || page != at {
						t.Fatalf("seed %d: page %d of [%d, %d) has no place", seed, page, start, end)
					}
					at++
				}
				return nil
			})
			if err != nil || at != end {
				t.Fatalf("seed %d: [%d, %d) ends at %d: %v", seed, start, end, at, err)
			}
		}
	}
}
