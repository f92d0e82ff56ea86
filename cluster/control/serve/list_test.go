package serve

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

func TestOnPage(t *testing.T) {
	l := &record.Launch{Number: 7, State: launch.State{Phase: launch.Queued}}
	number := func(n uint32) *uint32 { return &n }
	for i, test := range []struct {
		request *api.ListRequest
		want    bool
	}{
		{&api.ListRequest{}, true},
		{&api.ListRequest{Before: 8}, true},
		{&api.ListRequest{Before: 7}, false},
		{&api.ListRequest{After: number(6)}, true},
		{&api.ListRequest{After: number(7)}, false},
		{&api.ListRequest{After: number(0), Before: 8}, true},
		{&api.ListRequest{Phases: []string{"running", "queued"}}, true},
		{&api.ListRequest{Phases: []string{"running"}}, false},
	} {
		if got := onPage(l, test.request); got != test.want {
			t.Errorf("%d: %v, want %v", i, got, test.want)
		}
	}
}

// TestEventsFromATime: only the last events of before the request are sent, and then all.
func TestEventsFromATime(t *testing.T) {
	var l record.Launch
	add := func(seconds ...int64) {
		for _, s := range seconds {
			l.AddEvent(record.Event{At: time.Unix(s, 0), Kind: "k"})
		}
	}
	add(1, 2, 3)
	f := &eventFollower{request: &api.EventsRequest{SinceUnixMs: 2000}, sent: map[eventSource]int{}}
	for i, want := range []int{2, 0} {
		if got := f.take(eventSource{launch: "a"}, l.Events); len(got) != want {
			t.Errorf("%d: %d events, want %d", i, len(got), want)
		}
	}
	add(1, 9)
	if got := f.take(eventSource{launch: "a"}, l.Events); len(got) != 1 || got[0].GetNumber() != 5 {
		t.Errorf("after more: %v", got)
	}
}

func TestHistory(t *testing.T) {
	l := &record.Launch{
		ID: "l-1", State: launch.State{
			Spec:     launch.Spec{Jobs: []launch.Job{{Name: "a"}, {Name: "b"}}},
			Replicas: []launch.Replica{{Job: 0}, {Job: 1, Index: 4}},
		},
		Spans:  []record.Span{{Replica: 1, Attempt: 2, Node: "n", From: time.UnixMilli(5)}},
		Events: []record.Event{{Number: 3, Kind: "k", At: time.UnixMilli(6)}},
	}
	got := historyView(l)
	s, e := got.GetSpans()[0], got.GetEvents()[0]
	if s.GetJob() != "b" || s.GetIndex() != 4 || s.GetAttempt() != 2 || s.GetFromUnixMs() != 5 || s.GetToUnixMs() != 0 {
		t.Errorf("the span is %v", s)
	}
	if e.GetLaunch() != "l-1" || e.GetNumber() != 3 || e.GetUnixMs() != 6 {
		t.Errorf("the event is %v", e)
	}
}
