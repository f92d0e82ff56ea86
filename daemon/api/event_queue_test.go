package api_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/phos-gpu/phos/daemon/api"
)

// A client that reads nothing does not block the sender. In the end it gets all events that are not
// replaceable, in order.
func TestEventQueueDoesNotBlock(t *testing.T) {
	reads, entered := make(chan struct{}), make(chan struct{}, 10)
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
	if want := []string{"first", "step", "notice", "done"}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
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

func TestEventQueueDropsReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble's clock does not advance
		sent := make(chan int, 1000)
		out := &api.EventQueue[int]{Send: func(event int) error {
			sent <- event
			return nil
		}}
		for i := range 1000 {
			out.PushLatest("copy", i)
		}
		if err := out.Flush(); err != nil || len(sent) != 1 {
			t.Errorf("sent %d, %v, want 1 event", len(sent), err)
		}
	})
}
