package serve

import (
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/record"
)

// historyView returns the course of a launch for people.
func historyView(l *record.Launch) *api.History {
	h := &api.History{}
	for _, s := range l.Spans {
		r := &l.State.Replicas[s.Replica]
		h.Spans = append(h.Spans, &api.Span{
			Job: l.State.Spec.Jobs[r.Job].Name, Index: uint32(r.Index), Attempt: uint32(s.Attempt), Node: s.Node,
			FromUnixMs: unixMS(s.From), ToUnixMs: unixMS(s.To),
		})
	}
	for _, e := range l.Events {
		h.Events = append(h.Events, eventView(e, l.ID, ""))
	}
	return h
}

// eventView returns an event of a launch or node for people.
func eventView(e record.Event, launchID, node string) *api.Event {
	return &api.Event{
		UnixMs: e.At.UnixMilli(), Launch: launchID, Node: node, Kind: e.Kind, Text: e.Text, Epoch: uint64(e.Epoch),
		Number: uint64(e.Number),
	}
}
