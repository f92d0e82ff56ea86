package api_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/phos-gpu/phos/daemon/api"
)

// A client that reads nothing does not block the sender, and takes little memory. In the end it
// gets all events that are not replaceable, in order.
func TestEventQueueDoesNotBlock(t *testing.T) {
	reads, entered := make(chan struct{}), make(chan struct{}, 100)
	var got []string
	out := &api.EventQueue[string]{Send: func(event string) error {
		entered <- struct{}{}
		<-reads
		got = append(got, event)
		return nil
	}}
	out.PushLatest("first", "first")
	<-entered
	for i := range 1000 {
		out.PushLatest(string(rune('a'+i%26)), "step")
	}
	for _, event := range []string{"notice", "done"} {
		if err := out.Push(event); err != nil {
			t.Error(err)
		}
	}
	close(reads)
	if err := out.Flush(); err != nil {
		t.Error(err)
	}
	if len(got) > 40 || !slices.Equal(slices.Compact(got), []string{"first", "step", "notice", "done"}) {
		t.Errorf("sent %q", got)
	}
	if err := out.Flush(); err != nil {
		t.Error(err)
	}
}

func TestEventQueueSendFails(t *testing.T) {
	errGone := errors.New("gone")
	out := &api.EventQueue[int]{Send: func(int) error { return errGone }}
	_ = out.Push(1)
	if err := out.Flush(); !errors.Is(err, errGone) {
		t.Errorf("got %v, want %v", err, errGone)
	}
	if err := out.Push(2); !errors.Is(err, errGone) {
		t.Errorf("after failure: got %v, want %v", err, errGone)
	}
}

// TestEventQueueDropsReports: of many reports of a phase at one time the first and the last are
// sent, the last before anything that follows.
func TestEventQueueDropsReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble's clock does not advance
		var sent []int
		out := &api.EventQueue[int]{Send: func(event int) error {
			sent = append(sent, event)
			return nil
		}}
		for i := range 1000 {
			out.PushLatest("copy", i)
		}
		for i := range 10 {
			out.PushLatest("write", 1000+i)
		}
		_ = out.Push(2000)
		out.PushLatest("load", 3000)
		out.PushLatest("load", 3001)
		if err := out.Flush(); err != nil {
			t.Error(err)
		}
		first := func(event int) bool { return event%1000 == 0 && event != 2000 } // not sent, if the last was there before
		if last := slices.DeleteFunc(slices.Clone(sent), first); !slices.Equal(last, []int{999, 1009, 2000, 3001}) ||
			!slices.IsSorted(sent) {
			t.Errorf("sent %v", sent)
		}
	})
}
