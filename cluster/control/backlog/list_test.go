package backlog

import (
	"slices"
	"sync"
	"testing"
)

// TestOrder: what several goroutines add arrives once each, and that of each one in its order.
func TestOrder(t *testing.T) {
	const writers, each = 4, 500
	l := New[[2]int]()
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for i := range each {
				l.Add([2]int{writer, i})
			}
		})
	}
	got := make([][]int, writers)
	for count := 0; count < writers*each; {
		<-l.Ready()
		for _, item := range l.Take() {
			got[item[0]] = append(got[item[0]], item[1])
			count++
		}
	}
	group.Wait()
	for writer, items := range got {
		if len(items) != each || !slices.IsSorted(items) {
			t.Errorf("writer %d: got %v", writer, items)
		}
	}
}

// TestClose: a closed list has nothing and takes nothing.
func TestClose(t *testing.T) {
	l := New[int]()
	if !l.Add(1) {
		t.Error("an open list has refused an item")
	}
	l.Close()
	if l.Add(2) || len(l.Take()) > 0 {
		t.Error("a closed list has items")
	}
}
