package mirror

import (
	"fmt"
	"iter"

	"github.com/phos-gpu/phos/daemon/process"
)

// areasOf returns the mappings that a range lies in, all of it, without gaps.
func areasOf(mappings iter.Seq2[process.Mapping, error], start, end uint64) ([]process.Mapping, error) {
	var found []process.Mapping
	next := start
	for m, err := range mappings {
		if err != nil {
			return nil, err
		}
		if m.End <= next {
			continue
		}
		if m.Start > next {
			break
		}
		found = append(found, m)
		if next = m.End; next >= end {
			return found, nil
		}
	}
	return nil, fmt.Errorf("%w: it is not all mapped", ErrPrivate)
}
