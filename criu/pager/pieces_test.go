package pager

import (
	"math/rand"
	"testing"

	"github.com/phos-gpu/phos/internal/linux/userfault"
)

// place is where the content of a page is.
type place struct {
	file   int
	offset uint64
}

// pages lists all pages of pieces, which must be in order.
func pages(t *testing.T, p pieces) map[uint64]place {
	t.Helper()
	found, last := map[uint64]place{}, uint64(0)
	p.tree.Ascend(func(one piece) bool {
		if one.start < last || one.start >= one.end {
			t.Fatalf("piece %+v behind %d", one, last)
		}
		last = one.end
		for at := one.start; at < one.end; at++ {
			found[at] = place{one.file, one.offset + at - one.start}
		}
		return true
	})
	return found
}

// TestPieces compares pieces with a table of all pages, while they are added, taken, moved and
// copied at random. A copy does not change.
func TestPieces(t *testing.T) {
	const most = 200
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		s, want := &space{missing: newPieces()}, map[uint64]place{}
		var copied pieces
		var wantCopied map[uint64]place
		for step := range 60 {
			start := uint64(random.Intn(most))
			end := start + 1 + uint64(random.Intn(30))
			switch random.Intn(4) {
			case 0:
				s.missing.take(start, end)
				one := piece{start, end, random.Intn(3), uint64(random.Intn(1000))}
				s.missing.add(one)
				for at := start; at < end; at++ {
					want[at] = place{one.file, one.offset + at - start}
				}
			case 1:
				for _, one := range s.missing.take(start, end) {
					for at := one.start; at < one.end; at++ {
						if want[at] != (place{one.file, one.offset + at - one.start}) {
							t.Fatalf("seed %d: page %d is taken from %+v, want %+v", seed, at, one, want[at])
						}
						delete(want, at)
					}
				}
				for at := start; at < end; at++ {
					if _, left := want[at]; left {
						t.Fatalf("seed %d: page %d is not taken", seed, at)
					}
				}
			case 2:
				to := uint64(random.Intn(most))
				s.move(userfault.Move{From: start, To: to, Bytes: end - start})
				moved := map[uint64]place{}
				for at := start; at < end; at++ {
					if from, some := want[at]; some {
						moved[at-start+to] = from
						delete(want, at)
					}
				}
				for at := to; at < to+end-start; at++ {
					delete(want, at)
				}
				for at, from := range moved {
					want[at] = from
				}
			case 3:
				copied, wantCopied = s.missing.clone(), pages(t, s.missing)
			}
			for _, each := range []struct {
				got  pieces
				want map[uint64]place
			}{{s.missing, want}, {copied, wantCopied}} {
				if each.got.tree == nil {
					continue
				}
				if got := pages(t, each.got); !same(got, each.want) {
					t.Fatalf("seed %d, step %d: got %v, want %v", seed, step, got, each.want)
				}
			}
			at := uint64(random.Intn(most))
			one, found := s.missing.at(at)
			if from, some := want[at]; found != some || found && (place{one.file, one.offset + at - one.start}) != from {
				t.Fatalf("seed %d: page %d is in %+v: %v, want %+v: %v", seed, at, one, found, from, some)
			}
			checkNext(t, s.missing, want, at)
		}
	}
}

// checkNext compares next with the table.
func checkNext(t *testing.T, p pieces, want map[uint64]place, from uint64) {
	t.Helper()
	wanted := func(one piece) bool { return one.file == 1 }
	one, found := p.next(from, wanted)
	for at := from; at < 1000; at++ {
		if where, some := want[at]; some && where.file == 1 {
			if !found || one.start != at {
				t.Fatalf("next from %d is %+v: %v, want %d", from, one, found, at)
			}
			return
		}
	}
	if found {
		t.Fatalf("next from %d is %+v, want none", from, one)
	}
}

func same(a, b map[uint64]place) bool {
	if len(a) != len(b) {
		return false
	}
	for at, where := range a {
		if b[at] != where {
			return false
		}
	}
	return true
}

// TestNames: what the pager composes are pages and lists of pages of processes, and nothing that
// leads out of a directory.
func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"pagemap-12.img": true, "pages-1.img": true, "parent/pagemap-12.img": true, "parent/x": true,
		"pagemap-shmem-3.img": false, "core-12.img": false, "pages-1.imgx": false, "pages-../x.img": false,
		"pages-01.img": false, "pagemap--1.img": false, "pagemap-+1.img": false, "pages-.img": false, "pstree.img": false,
	} {
		if got := Composes(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestMovedInto: the kernel unmaps the source of a move a while after the event. Memory that
// another thread has moved there since keeps its pieces; what is unmapped later loses them.
func TestMovedInto(t *testing.T) {
	s := &space{missing: newPieces()}
	s.missing.add(piece{10, 20, 0, 100})
	s.missing.add(piece{50, 60, 1, 200})
	unmapped := userfault.Event{Unmapped: &userfault.Range{Start: 10, End: 20}}
	s.follow([]userfault.Event{
		{Moved: &userfault.Move{From: 10, To: 80, Bytes: 10}},
		{Moved: &userfault.Move{From: 50, To: 10, Bytes: 10}},
		unmapped,
		{Unmapped: &userfault.Range{Start: 50, End: 60}},
	})
	want := map[uint64]place{}
	for i := range uint64(10) {
		want[10+i], want[80+i] = place{1, 200 + i}, place{0, 100 + i}
	}
	if got := pages(t, s.missing); !same(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s.follow([]userfault.Event{unmapped})
	if _, left := s.missing.at(12); left {
		t.Error("unmapped memory still has pieces")
	}
}
