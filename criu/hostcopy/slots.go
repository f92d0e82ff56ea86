package hostcopy

import "sort"

// run is a range of pages that were in memory in the first round.
type run struct {
	start, end uint64
	// offset is where its content is in the image.
	offset uint64
}

// slots are the places of pages in an image, in the order of addresses.
type slots struct {
	runs  []run
	bytes uint64
}

// add gives a range places behind those of all lower addresses. It reports whether there is room:
// the range must be behind all others.
func (s *slots) add(start, end uint64) (added run, ok bool) {
	added = run{start, end, s.bytes}
	last := len(s.runs) - 1
	switch {
	case last >= 0 && s.runs[last].end > start:
		return added, false
	case last >= 0 && s.runs[last].end == start:
		s.runs[last].end = end
	default:
		s.runs = append(s.runs, added)
	}
	s.bytes += end - start
	return added, true
}

// split calls known with the parts of a range that have places, and unknown with the others.
func (s *slots) split(start, end uint64, known func(run), unknown func(start, end uint64) error) error {
	i := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].end > start })
	for start < end {
		if i == len(s.runs) || s.runs[i].start >= end {
			return unknown(start, end)
		}
		each := s.runs[i]
		if start < each.start {
			if err := unknown(start, each.start); err != nil {
				return err
			}
			start = each.start
		}
		part := run{start, min(end, each.end), each.offset + start - each.start}
		known(part)
		start = part.end
		i++
	}
	return nil
}
