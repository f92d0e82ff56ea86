package pager

import "github.com/google/btree"

// piece is a run of pages that has not come yet, and where its content is.
type piece struct {
	start, end uint64
	// file is the number of a pages image, and offset the place there.
	file   int
	offset uint64
}

// clip returns the part of a piece in a range.
func (p piece) clip(start, end uint64) piece {
	from, to := max(p.start, start), min(p.end, end)
	return piece{from, to, p.file, p.offset + from - p.start}
}

// pieces are those of an address space, by address. They do not overlap. A copy costs nothing until
// it is changed.
type pieces struct{ tree *btree.BTreeG[piece] }

const pieceDegree = 32

func newPieces() pieces {
	return pieces{btree.NewG(pieceDegree, func(a, b piece) bool { return a.start < b.start })}
}

func (p pieces) clone() pieces { return pieces{p.tree.Clone()} }

// add adds a piece, which must not overlap others.
func (p pieces) add(one piece) {
	if one.start < one.end {
		p.tree.ReplaceOrInsert(one)
	}
}

// at returns the piece with an address.
func (p pieces) at(address uint64) (found piece, ok bool) {
	p.tree.DescendLessOrEqual(piece{start: address}, func(one piece) bool {
		found, ok = one, address < one.end
		return false
	})
	return found, ok
}

// within returns the parts of pieces in a range.
func (p pieces) within(start, end uint64) (found []piece) {
	if first, ok := p.at(start); ok {
		found = append(found, first.clip(start, end))
		start = first.end
	}
	p.tree.AscendRange(piece{start: start}, piece{start: end}, func(one piece) bool {
		found = append(found, one.clip(start, end))
		return true
	})
	return found
}

// take removes the parts of pieces in a range, and returns them.
func (p pieces) take(start, end uint64) []piece {
	found := p.within(start, end)
	for _, part := range found {
		whole, _ := p.at(part.start)
		p.tree.Delete(whole)
		p.add(whole.clip(whole.start, part.start))
		p.add(whole.clip(part.end, whole.end))
	}
	return found
}

// next returns the first piece behind an address, among those that are wanted.
func (p pieces) next(address uint64, wanted func(piece) bool) (found piece, ok bool) {
	if first, in := p.at(address); in && wanted(first) {
		return first.clip(address, first.end), true
	}
	p.tree.AscendGreaterOrEqual(piece{start: address}, func(one piece) bool {
		found, ok = one, wanted(one)
		return !ok
	})
	return found, ok
}

// bytes returns how much memory the pieces are.
func (p pieces) bytes() (total uint64) {
	p.tree.Ascend(func(one piece) bool {
		total += one.end - one.start
		return true
	})
	return total
}
