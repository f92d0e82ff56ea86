package replan

// inTime reports whether the chosen pipelines, equal ones side by side, do the batch in time. As in
// instance.Split, equal pipelines do equally many microbatches if the batch can be split so at all.
func (s *sizeSearch) inTime() bool {
	var counts, most []int
	batch, limit, done := s.plan.Spec.Microbatches, s.limit(len(s.chosen)), 0
	for i, size := range s.chosen {
		if i == 0 || size != s.chosen[i-1] {
			counts, most = append(counts, 0), append(most, s.within(size, limit))
		}
		last := len(counts) - 1
		counts[last]++
		done += most[last]
		if most[last] < 1 {
			return false
		}
	}
	if s.effort -= 20 * len(counts); done < batch {
		return false
	}
	if splits(batch, counts, most) {
		return true
	}
	for i := range most {
		most[i] = batch
	}
	return !splits(batch, counts, most)
}

// splits reports whether a batch can be split over pipelines, so many of each kind, so that those
// of a kind do equally many microbatches: at least one, and no more than most.
func splits(batch int, counts, most []int) bool {
	sums := make(bitSet, batch/64+1)
	sums[0] = 1
	for i, n := range counts {
		sums.shift(n) // each does one
		for may := 1; may < most[i] && n*may <= batch; {
			more := min(may, most[i]-may)
			sums.add(n * more)
			may += more
		}
	}
	return sums[batch/64]>>(batch%64)&1 != 0
}

// bitSet is a set of numbers from 0 to a bound.
type bitSet []uint64

// shift adds a number to all numbers. Those beyond the bound are dropped.
func (b bitSet) shift(by int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = b.shifted(i, by)
	}
}

// add adds the numbers that are greater by a number than those that are there.
func (b bitSet) add(by int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] |= b.shifted(i, by)
	}
}

// shifted returns a word of the set after all numbers have grown.
func (b bitSet) shifted(word, by int) (bits uint64) {
	from := word - by/64
	if from >= 0 {
		bits = b[from] << (by % 64)
	}
	if from > 0 && by%64 > 0 {
		bits |= b[from-1] >> (64 - by%64)
	}
	return bits
}
