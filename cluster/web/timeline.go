package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
)

// course is what has become of a replica, to be drawn over time.
type course struct {
	Segments []segment `json:"segments"`
	Marks    []mark    `json:"marks,omitempty"`
}

// segment is a time in which a replica was in one state: "waiting", "queued", "starting",
// "running", "stopping" or "suspended".
type segment struct {
	Kind string `json:"kind"`
	From int64  `json:"from"`
	To   int64  `json:"to"` // 0: it goes on
	Node string `json:"node,omitempty"`
}

// mark is an instant: "checkpoint", "unsaved", "restore", "move", "restart", "failed" or "done".
type mark struct {
	Kind string `json:"kind"`
	At   int64  `json:"at"`
	Text string `json:"text,omitempty"`
}

// markKinds says which events of a launch are marks, of the replica that they name or of all.
var markKinds = map[string]string{
	"saved": "checkpoint", "not saved": "unsaved", "restored": "restore",
}

// phaseKinds says how the time of a phase is drawn in which a replica has no processes.
var phaseKinds = map[string]string{
	"waiting": "waiting", "queued": "queued", "running": "queued", "stopping": "queued", "suspended": "suspended",
}

// history is the course of a launch, sorted for drawing.
type history struct {
	launch *api.Launch
	// phases are the events that begin a phase of the launch.
	phases []*api.Event
	// begun has when the processes of each replica began to run.
	begun map[string][]int64
	// marks are those of each replica, by its name, and those of all under the empty name.
	marks map[string][]mark
	// known is from when on the events are complete: only the last ones are kept.
	known int64
}

// newHistory sorts the events of a launch.
func newHistory(l *api.Launch) *history {
	h := &history{launch: l, begun: map[string][]int64{}, marks: map[string][]mark{}}
	for i, e := range l.GetHistory().GetEvents() {
		if i == 0 && e.GetNumber() > 1 {
			h.known = e.GetUnixMs()
		}
		name, text := ofReplica(e.GetText())
		switch {
		case e.GetKind() == "running" && name != "":
			h.begun[name] = append(h.begun[name], e.GetUnixMs())
		case markKinds[e.GetKind()] != "":
			h.marks[name] = append(h.marks[name], mark{markKinds[e.GetKind()], e.GetUnixMs(), plain(text)})
		case phaseKinds[e.GetKind()] != "":
			h.phases = append(h.phases, e)
		}
	}
	return h
}

// ofReplica splits the text of an event into the name of its replica, which the controller writes
// before the node, and the rest. The name is empty if the event is one of the whole launch.
func ofReplica(text string) (name, rest string) {
	name, rest, found := strings.Cut(text, " on ")
	if !found || strings.Contains(name, " ") {
		return "", text
	}
	return name, "on " + rest
}

// course returns the course of a replica.
func (h *history) course(r *api.Replica) course {
	c := course{Segments: []segment{}}
	at, node := h.launch.GetSubmittedUnixMs(), ""
	for _, s := range h.launch.GetHistory().GetSpans() {
		if s.GetJob() != r.GetJob() || s.GetIndex() != r.GetIndex() {
			continue
		}
		h.gap(&c, at, s.GetFromUnixMs())
		h.span(&c, s)
		if node != "" {
			c.Marks = append(c.Marks, startMark(s, node))
		}
		at, node = s.GetToUnixMs(), s.GetNode()
		if at == 0 {
			at = math.MaxInt64 // it has processes now
		}
	}
	if at != math.MaxInt64 && r.GetPhase() == "pending" {
		h.gap(&c, at, h.launch.GetEndedUnixMs())
	}
	c.Marks = append(c.Marks, h.marks[""]...)
	c.Marks = append(c.Marks, h.marks[fmt.Sprintf("%s.%d", r.GetJob(), r.GetIndex())]...)
	if kind := r.GetPhase(); (kind == "failed" || kind == "done") && node != "" && at != math.MaxInt64 {
		c.Marks = append(c.Marks, mark{kind, at, exitText(r.GetExits())})
	}
	slices.SortStableFunc(c.Marks, func(a, b mark) int { return cmp.Compare(a.At, b.At) })
	return c
}

// startMark says how an attempt after the first one has come about.
func startMark(s *api.Span, before string) mark {
	if s.GetNode() != before {
		return mark{"move", s.GetFromUnixMs(), plain("from " + before + " to " + s.GetNode())}
	}
	return mark{"restart", s.GetFromUnixMs(), plain("on " + before)}
}

// gap adds the time in which a replica had no processes, by the phases of the launch. An end of 0
// is none yet.
func (h *history) gap(c *course, from, to int64) {
	kind := "queued"
	for _, e := range h.phases {
		next := phaseKinds[e.GetKind()]
		switch at := e.GetUnixMs(); {
		case at <= from:
			kind = next
		case (to == 0 || at < to) && next != kind:
			c.add(segment{Kind: kind, From: from, To: at})
			from, kind = at, next
		}
	}
	c.add(segment{Kind: kind, From: from, To: to})
}

// span adds an attempt: the time until its processes ran, that in which they did, and that in which
// they were being stopped.
func (h *history) span(c *course, s *api.Span) {
	from, to := s.GetFromUnixMs(), s.GetToUnixMs()
	within := func(at int64) bool { return at >= from && (to == 0 || at <= to) }
	kind := "starting"
	if from < h.known {
		kind = "running" // when it began is no longer known
	}
	name := fmt.Sprintf("%s.%d", s.GetJob(), s.GetIndex())
	if i := slices.IndexFunc(h.begun[name], within); i >= 0 {
		c.add(segment{Kind: "starting", From: from, To: h.begun[name][i], Node: s.GetNode()})
		from, kind = h.begun[name][i], "running"
	}
	for _, e := range h.phases {
		if at := e.GetUnixMs(); e.GetKind() == "stopping" && within(at) {
			c.add(segment{Kind: kind, From: from, To: at, Node: s.GetNode()})
			from, kind = at, "stopping"
			break
		}
	}
	c.add(segment{Kind: kind, From: from, To: to, Node: s.GetNode()})
}

// add adds a segment, unless it is empty.
func (c *course) add(s segment) {
	if s.To == 0 || s.To > s.From {
		c.Segments = append(c.Segments, s)
	}
}
