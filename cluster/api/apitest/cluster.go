package apitest

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// Cluster is what the controllers share. Its fields may be set before the first request, and with
// Change after it.
type Cluster struct {
	Owner string
	Nodes []*api.Node
	Users []*api.User
	// Ends is how commands of Exec end; nil: with status 0.
	Ends *api.ExecEnd

	mu       sync.Mutex // guards all below, and the above while requests are answered
	changed  chan struct{}
	launches []*entry
	code     map[string][]byte
	events   []*api.Event
	created  int // requests of Create that were carried out
}

// entry is a launch.
type entry struct {
	view    *api.Launch
	spec    launch.Spec
	request string
	code    *api.CodeRef
	lines   []*api.LogLine
	reasons []string
	trains  []byte // what Training answers; nil: it does not train
}

// New returns a cluster without nodes.
func New(t *testing.T) *Cluster {
	t.Helper()
	return &Cluster{Owner: "ada", changed: make(chan struct{}), code: map[string][]byte{}}
}

// Change changes the state, and tells the watchers.
func (c *Cluster) Change(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Created returns how many requests of Create were carried out.
func (c *Cluster) Created() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.created
}

// Code returns the packed directory of a launch; nil: it has none.
func (c *Cluster) Code(id string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.find(id); e != nil && e.code != nil {
		return c.code[string(e.code.GetHash())]
	}
	return nil
}

// Spec returns the description of a launch.
func (c *Cluster) Spec(id string) launch.Spec {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.find(id); e != nil {
		return e.spec
	}
	return launch.Spec{}
}

// Add adds a launch. Its id and its number are filled in.
func (c *Cluster) Add(view *api.Launch) *api.Launch {
	c.Change(func() { c.add(&entry{view: view}) })
	return view
}

// Print adds lines to the log of a launch.
func (c *Cluster) Print(id string, lines ...*api.LogLine) {
	c.Change(func() {
		e := c.find(id)
		e.lines = append(e.lines, lines...)
	})
}

// Happen adds events.
func (c *Cluster) Happen(events ...*api.Event) {
	c.Change(func() {
		for _, each := range events {
			c.happen(each)
		}
	})
}

// Because says why a launch waits.
func (c *Cluster) Because(id string, reasons ...string) {
	c.Change(func() { c.find(id).reasons = reasons })
}

// Train sets what the training of a launch says of itself.
func (c *Cluster) Train(id string, status []byte) {
	c.Change(func() { c.find(id).trains = status })
}

// Start places all replicas of a launch on a node, and End ends it.
func (c *Cluster) Start(id, node string) {
	c.Change(func() {
		e := c.find(id)
		e.view.Phase, e.view.StartedUnixMs, e.view.Reason = string(launch.Running), e.view.GetSubmittedUnixMs()+1000, ""
		for _, r := range e.view.GetReplicas() {
			r.Phase, r.Node, r.StartedUnixMs = "running", node, e.view.GetStartedUnixMs()
		}
	})
}

// End ends a launch with an exit status.
func (c *Cluster) End(id string, status int32) {
	c.Change(func() { c.find(id).end(status, launch.Completed, "") })
}

// end ends a launch; a status other than 0 is a failure unless the launch was stopped.
func (e *entry) end(status int32, result launch.Result, reason string) {
	if status != 0 && result == launch.Completed {
		result, reason = launch.Failed, fmt.Sprintf("a process exited with %d", status)
	}
	e.view.Phase, e.view.Result, e.view.Status, e.view.Reason = string(launch.Ended), string(result), status, reason
	e.view.EndedUnixMs = e.view.GetSubmittedUnixMs() + 2000
	for _, r := range e.view.GetReplicas() {
		r.Phase = "done"
	}
}

// add numbers a launch and keeps it.
func (c *Cluster) add(e *entry) {
	number := len(c.launches) + 1
	if e.view.GetId() == "" {
		e.view.Id = fmt.Sprintf("l-%010d", number)
	}
	e.view.Number = uint32(number)
	if e.view.GetPhase() == "" {
		e.view.Phase = string(launch.Queued)
	}
	if e.view.GetOwner() == "" {
		e.view.Owner = c.Owner
	}
	c.launches = append(c.launches, e)
	c.happen(&api.Event{
		Launch: e.view.GetId(), Kind: e.view.GetPhase(), Text: "submitted by " + c.Owner,
		UnixMs: e.view.GetSubmittedUnixMs(),
	})
}

// happen numbers an event and keeps it.
func (c *Cluster) happen(event *api.Event) {
	event.Number = uint64(len(c.events) + 1)
	c.events = append(c.events, event)
}

// find returns a launch by id, number or name; nil if there is none.
func (c *Cluster) find(text string) *entry {
	for _, e := range slices.Backward(c.launches) {
		if e.view.GetId() == text || strconv.Itoa(int(e.view.GetNumber())) == text || e.view.GetName() == text {
			return e
		}
	}
	return nil
}
