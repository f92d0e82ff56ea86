package record

import (
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
)

// Launch is what the store keeps of a launch. Only the leader writes it.
type Launch struct {
	// ID is the key. Number counts the launches of the cluster; people type it.
	ID     string `json:"id"`
	Number int    `json:"number"`
	// Owner is the account as which its processes run.
	Owner string `json:"owner"`
	// By is the user that has submitted it.
	By string `json:"by"`
	// Request is the number that the caller gave the request; empty: none.
	Request string `json:"request,omitempty"`

	Submitted time.Time `json:"submitted"`
	// Queued is when it last began to wait for places.
	Queued time.Time `json:"queued,omitzero"`
	// Started is when it first had places.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// RanBefore is how long it has run in placements that have ended.
	RanBefore time.Duration `json:"ran_before_ns,omitempty"`
	// Placed is when it last got places.
	Placed time.Time `json:"placed,omitzero"`
	// Runs counts its placements.
	Runs int `json:"runs,omitempty"`

	Code   Code   `json:"code,omitzero"`
	Script []byte `json:"script,omitempty"`

	State launch.State `json:"state"`
	// Saved is when the images of State.Cut were taken.
	Saved time.Time `json:"saved,omitzero"`
	// Images are the last ones that were taken, the newest last. Saves counts the saves that were
	// ordered, and SaveProblem is why the last one has failed.
	Images      []Image `json:"images,omitempty"`
	Saves       int     `json:"saves,omitempty"`
	SaveProblem string  `json:"save_problem,omitempty"`
	// Asked counts the saves after which it runs on that were asked for.
	Asked int `json:"asked,omitempty"`
	// Cuts counts the cuts of several replicas that were begun.
	Cuts int `json:"cuts,omitempty"`
	// Network is the number of its own network, and Prefix has its addresses; 0: it has none.
	Network int    `json:"network,omitempty"`
	Prefix  string `json:"prefix,omitempty"`
	// MoveTo is the node to which it is being moved; empty: none.
	MoveTo string `json:"move_to,omitempty"`
	// Events are the last ones, the newest last.
	Events []Event `json:"events,omitempty"`
	// Spans are when replicas had processes, the newest last.
	Spans []Span `json:"spans,omitempty"`
}

// Code names the packed directory of a launch. Its bytes are not in the store.
type Code struct {
	// Hash is a BLAKE3 in hexadecimal digits.
	Hash  string `json:"hash"`
	Bytes uint64 `json:"bytes"`
}

// Event is something that happened, for people.
type Event struct {
	// Number counts the events of a launch or node.
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	// Epoch is that of the leader that has decided it.
	Epoch int64  `json:"epoch,omitempty"`
	Kind  string `json:"kind"`
	Text  string `json:"text,omitempty"`
}

// Span is the time in which a replica had processes.
type Span struct {
	Replica int       `json:"replica"`
	Attempt int       `json:"attempt"`
	Node    string    `json:"node"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to,omitzero"`
}

// Most events and spans that a launch keeps. maxExecEvents is how many of the events may be about
// commands of phos exec: a loop of these must not push out what became of the launch.
const (
	maxEvents     = 200
	maxExecEvents = 50
	maxSpans      = 500
)

// ExecEvent is the kind of events about commands of phos exec.
const ExecEvent = "exec"

// launchVersion is the version that Encode writes. Version 1 knew no images, version 2 no replicas
// that leave, version 3 neither copies of images nor moves, and version 4 neither cuts of
// several replicas nor networks.
const launchVersion = 5

// Encode returns the value for the store.
func (l *Launch) Encode() []byte { return encode("launch", launchVersion, l) }

// DecodeLaunch reads a value of the store.
func DecodeLaunch(text []byte) (Launch, error) {
	var l Launch
	if err := decode(text, "launch", launchVersion, &l); err != nil {
		return Launch{}, err
	}
	if len(l.State.Spec.Jobs) == 0 || l.ID == "" {
		return Launch{}, fmt.Errorf("launch %.40q: %w: it has no jobs or no id", l.ID, ErrDamaged)
	}
	return l, nil
}

// Clone returns a copy whose lists can be changed.
func (l *Launch) Clone() *Launch {
	c := *l
	c.Events, c.Spans = slices.Clone(l.Events), slices.Clone(l.Spans)
	c.Images = slices.Clone(l.Images)
	return &c
}

// AddEvent appends an event, and forgets the oldest ones.
func (l *Launch) AddEvent(e Event) {
	l.Events = appendEvent(l.Events, e)
}

// appendEvent numbers an event and appends it. The oldest ones are forgotten, of those about
// commands before others are.
func appendEvent(events []Event, e Event) []Event {
	if count := len(events); count > 0 {
		e.Number = events[count-1].Number
	}
	e.Number++
	if e.Kind == ExecEvent {
		events = withRoomForExec(events)
	}
	events = append(events, e)
	return events[max(0, len(events)-maxEvents):]
}

// withRoomForExec returns events without the oldest one about a command, if there are as many of
// these as may be. The list itself stays as it is, since others may read it.
func withRoomForExec(events []Event) []Event {
	oldest, count := 0, 0
	for i := range events {
		if events[i].Kind != ExecEvent {
			continue
		}
		if count++; count == 1 {
			oldest = i
		}
	}
	if count < maxExecEvents {
		return events
	}
	return slices.Concat(events[:oldest], events[oldest+1:])
}

// OpenSpan notes that a replica has processes from now on.
func (l *Launch) OpenSpan(s Span) {
	l.Spans = append(l.Spans, s)
	l.Spans = l.Spans[max(0, len(l.Spans)-maxSpans):]
}

// CloseSpan notes that an attempt has no processes left.
func (l *Launch) CloseSpan(replica, attempt int, at time.Time) {
	for i := range l.Spans {
		if s := &l.Spans[i]; s.Replica == replica && s.Attempt == attempt && s.To.IsZero() {
			s.To = at
		}
	}
}

// Label returns what people call it: its name, or its number.
func (l *Launch) Label() string {
	if l.State.Spec.Name != "" {
		return l.State.Spec.Name
	}
	return fmt.Sprint(l.Number)
}
