package web

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
)

// changes are launches that have changed since the page was told last.
type changes struct {
	mu    sync.Mutex
	ids   map[string]bool
	all   bool // all may have changed
	ready chan struct{}
}

// Bounds of what the page is told of changes. It asks again for what it shows.
const (
	tellEvery  = 300 * time.Millisecond
	maxChanged = 200
)

// add notes changed launches. With the first reply of a watch the page must look at all: it may
// have looked before the watch began.
func (c *changes) add(launches []*api.Launch, first bool) {
	c.mu.Lock()
	c.all = c.all || first
	for _, each := range launches {
		c.ids[each.GetId()] = true
	}
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// take returns what has changed; nothing with all set if that is too much to tell.
func (c *changes) take() (ids []string, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all = c.all || len(c.ids) > maxChanged; !all {
		ids = slices.Sorted(maps.Keys(c.ids))
	}
	clear(c.ids)
	c.all = false
	return ids, all
}

// followChanges tells which launches have changed.
func (s *Server) followChanges(q *request, e *eventStream) error {
	c := &changes{ids: map[string]bool{}, ready: make(chan struct{}, 1)}
	finished := make(chan error, 1)
	go func() {
		finished <- s.parts.Launches.Watch(&api.ListRequest{Ended: true, Limit: 1}, &sink[api.WatchReply]{
			ctx: q.ctx, send: func(reply *api.WatchReply) error {
				c.add(reply.GetLaunches(), reply.GetComplete())
				return nil
			},
		})
	}()
	for {
		select {
		case err := <-finished:
			return err
		case <-c.ready:
		}
		if err := c.tell(q.ctx, e); err != nil {
			return err
		}
	}
}

// tell sends what has changed, with what changes within a short time after.
func (c *changes) tell(ctx context.Context, e *eventStream) error {
	timer := time.NewTimer(tellEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	ids, all := c.take()
	if len(ids) == 0 && !all {
		return nil // they were in the message before
	}
	return e.send("changed", "", struct {
		IDs []string `json:"ids"`
		All bool     `json:"all"`
	}{ids, all})
}

// event is an event for the page. Key names it: a page that comes back gets some of them again.
type event struct {
	Key    string `json:"key"`
	At     int64  `json:"at"`
	Launch string `json:"launch,omitempty"`
	Node   string `json:"node,omitempty"`
	Kind   string `json:"kind"`
	Text   string `json:"text"`
}

// Events of a page that comes back: from a little before the last one that it has, because those of
// the same time come in any order.
const (
	eventsAtFirst = 200
	eventOverlap  = 2000 // ms
)

// followEvents sends the last events, and then each that happens.
func (s *Server) followEvents(q *request, e *eventStream) error {
	wanted := &api.EventsRequest{
		Launch: q.FormValue("launch"), Node: q.FormValue("node"), Follow: true, Tail: eventsAtFirst,
	}
	if last := q.Header.Get("Last-Event-ID"); last != "" {
		at, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			return api.Invalid("Last-Event-ID is not one of this stream")
		}
		wanted.SinceUnixMs, wanted.Tail = max(0, at-eventOverlap), 0
	}
	return s.parts.Launches.Events(wanted, &sink[api.Event]{ctx: q.ctx, send: func(got *api.Event) error {
		return e.send("event", strconv.FormatInt(got.GetUnixMs(), 10), eventOf(got))
	}})
}

// eventOf converts an event.
func eventOf(e *api.Event) event {
	return event{
		Key: e.GetLaunch() + e.GetNode() + "/" + strconv.FormatUint(e.GetNumber(), 10), At: e.GetUnixMs(),
		Launch: e.GetLaunch(), Node: plain(e.GetNode()), Kind: plain(e.GetKind()), Text: plain(e.GetText()),
	}
}

// line is a line of a log for the page.
type line struct {
	At      int64  `json:"at"` // ms
	From    string `json:"from"`
	Process uint32 `json:"process"`
	Attempt uint32 `json:"attempt"`
	Error   bool   `json:"error,omitempty"`
	Text    string `json:"text"`
	Dropped uint64 `json:"dropped,omitempty"`
}

// linesAtFirst is how many lines of each process the page gets first, and maxLineBytes how much of
// each.
const (
	linesAtFirst = 500
	maxLineBytes = 8 << 10
)

// followLogs sends the last lines of a launch, and then each that it prints. A page that comes back
// begins again: lines of several nodes have no common order from which to go on.
func (s *Server) followLogs(q *request, e *eventStream) error {
	what := q.PathValue("id")
	if part := q.FormValue("part"); part != "" {
		what += "/" + part
	}
	wanted := &api.LogsRequest{What: what, Follow: true, Tail: linesAtFirst}
	return s.parts.Launches.Logs(wanted, &sink[api.LogsReply]{ctx: q.ctx, send: func(reply *api.LogsReply) error {
		var lines []line
		for _, each := range reply.GetLines() {
			lines = append(lines, lineOf(each))
		}
		return e.send("lines", "", struct {
			Lines  []line `json:"lines"`
			Notice string `json:"notice,omitempty"`
		}{lines, plain(reply.GetNotice())})
	}})
}

// lineOf converts a line of a log.
func lineOf(l *api.LogLine) line {
	text := string(l.GetText())
	if len(text) > maxLineBytes {
		text = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxLineBytes], "\ufffd"), len(l.GetText()))
	}
	return line{
		At: l.GetUnixNs() / int64(time.Millisecond), From: plain(fmt.Sprintf("%s.%d", l.GetJob(), l.GetReplica())),
		Process: l.GetProcess(), Attempt: l.GetAttempt(), Error: l.GetStderr(), Text: plain(text), Dropped: l.GetDropped(),
	}
}
