package api_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/phos-gpu/phos/daemon/api"
)

// A caller who takes nothing holds nobody up; what he gets in the end is what matters, in its
// order.
func TestTellerDoesNotWait(t *testing.T) {
	takes, entered := make(chan struct{}), make(chan struct{}, 10)
	var got []string
	out := &api.Teller[string]{Send: func(event string) error {
		entered <- struct{}{}
		<-takes
		got = append(got, event)
		return nil
	}}
	out.TellLatest("first", "first")
	<-entered
	for i := range 1000 {
		out.TellLatest(string(rune('a'+i%26)), "step")
	}
	for _, event := range []string{"notice", "done"} {
		if err := out.Tell(event); err != nil {
			t.Error(err)
		}
	}
	close(takes)
	if err := out.Finish(); err != nil {
		t.Error(err)
	}
	if want := []string{"first", "step", "notice", "done"}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	if err := out.Finish(); err != nil {
		t.Error(err)
	}
}

func TestTellerFails(t *testing.T) {
	errGone := errors.New("gone")
	out := &api.Teller[int]{Send: func(int) error { return errGone }}
	_ = out.Tell(1)
	if err := out.Finish(); !errors.Is(err, errGone) {
		t.Errorf("Finish: %v", err)
	}
	if err := out.Tell(2); !errors.Is(err, errGone) {
		t.Errorf("Tell: %v", err)
	}
}

func TestTellerLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which time stands still meanwhile
		sent := make(chan int, 1000)
		out := &api.Teller[int]{Send: func(event int) error {
			sent <- event
			return nil
		}}
		for i := range 1000 {
			out.TellLatest("copy", i)
		}
		if err := out.Finish(); err != nil || len(sent) != 1 {
			t.Errorf("sent %d: %v", len(sent), err)
		}
	})
}
