package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/agent/images"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
)

// attempt is one attempt of a replica on this node. A goroutine takes its course: prepare, start,
// wait for the end, report it until the leader has it, and clean up.
type attempt struct {
	set *attempts
	key supervisor.Key

	mu     sync.Mutex
	report *api.Report
	runs   *supervisor.Attempt // once it was started
	// prepared is closed once it has a log, or will never have one.
	prepared chan struct{}
	// stopping is closed when its end is ordered, with the grace.
	stopping chan struct{}
	grace    time.Duration
	// work is the directory of its working directories.
	work string
	// saves are its images.
	saves *saves
	// place is where the other replicas are.
	place whereabouts
	// adopted means that an earlier agent has started it.
	adopted bool
	// ordered is the last order of a stream that found it here; nil: there was none. The lock of
	// attempts guards it.
	ordered *ordered
	// released is closed when the leader wants it no more.
	released chan struct{}
}

// ordered is an order, and the stream that it has come by.
type ordered struct {
	ctx    context.Context
	client api.AgentsClient
	order  *api.Order
}

func newAttempt(set *attempts, key supervisor.Key) *attempt {
	t := &attempt{
		set: set, key: key, work: set.agent.workDir(key),
		prepared: make(chan struct{}), stopping: make(chan struct{}), released: make(chan struct{}),
	}
	t.saves = newSaves(t)
	return t
}

// endPreparing notes that it has a log, or will never have one.
func (t *attempt) endPreparing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isClosed(t.prepared) {
		close(t.prepared)
	}
}

// started returns what was started; nil: nothing was yet.
func (t *attempt) started() *supervisor.Attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs
}

// last returns the last report; nil: there is none yet.
func (t *attempt) last() *api.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.report
}

// say changes the report and sends it.
func (t *attempt) say(change func(*api.Report)) {
	t.mu.Lock()
	next := &api.Report{Launch: t.key.Launch, Replica: uint32(t.key.Replica), Attempt: uint32(t.key.Attempt)}
	if t.report != nil {
		next = proto.CloneOf(t.report)
	}
	change(next)
	t.report = next
	t.mu.Unlock()
	t.set.send(next)
}

// stop orders the end.
func (t *attempt) stop(grace time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isClosed(t.stopping) {
		t.grace = grace
		close(t.stopping)
	}
}

// end ends an attempt whose image is part of a complete cut: by its save, if that waits for it.
func (t *attempt) end() {
	if !t.saves.end() {
		t.stop(0)
	}
}

// release lets the leader's interest end. What still runs is ended.
func (t *attempt) release() {
	t.stop(0)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isClosed(t.released) {
		close(t.released)
	}
}

// isClosed reports whether a channel on which nothing is sent is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// run takes the whole course of an attempt. The context is that of the stream with the order: if it
// ends while the attempt is prepared, the attempt is dropped, and the next stream orders it again.
func (t *attempt) run(ctx context.Context, client api.AgentsClient, order *api.Order) {
	if order.GetDo() != string(launch.Run) {
		t.neverStarted()
		return
	}
	preparing, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-t.stopping:
			cancel()
		case <-t.saves.ordered:
			cancel()
		case <-preparing.Done():
		}
	}()
	started, err := t.start(preparing, client, order)
	cancel()
	switch {
	case err == nil:
		t.finish(started)
	case isClosed(t.stopping), isClosed(t.saves.ordered):
		t.neverStarted()
	case ctx.Err() != nil:
		if next := t.set.goneOrOrdered(t); next != nil {
			t.run(next.ctx, next.client, next.order)
		}
	case errors.Is(err, images.ErrUnreachable): // another node may have it by now, or none
		t.say(func(r *api.Report) { r.UnstartedReason = err.Error() })
		t.neverStarted()
	default:
		t.set.agent.config.Log.Warn("attempt not started", "attempt", t.key, "error", err)
		t.ended(supervisor.Status{Processes: []supervisor.ProcessStatus{{Exit: &launch.Exit{Error: err.Error()}}}})
		t.awaitRelease()
	}
}

// neverStarted reports the end of an attempt of which no process was started.
func (t *attempt) neverStarted() {
	t.say(func(r *api.Report) { r.Unstarted = true })
	t.ended(supervisor.Status{})
	t.awaitRelease()
}

// errNoDeadline cannot happen: the agent has a deadline before it gets orders.
var errNoDeadline = errors.New("no controller has said until when it may run")

// start prepares an attempt and starts its supervisor.
func (t *attempt) start(ctx context.Context, client api.AgentsClient, order *api.Order) (*supervisor.Attempt, error) {
	a := t.set.agent
	progress := func(text string) {
		t.say(func(r *api.Report) { r.State, r.Progress = "preparing", text })
	}
	spec, err := a.prepare(ctx, client, order, progress)
	if err != nil {
		return nil, err
	}
	if spec.Deadline = a.newDeadline(); spec.Deadline == 0 { // to a supervisor that means for ever
		return nil, errNoDeadline
	}
	if err := t.join(ctx, &spec, order); err != nil {
		return nil, err
	}
	if spec.Network != nil {
		defer spec.Network.Close()
	}
	started, err := supervisor.Start(ctx, a.path("attempts"), spec)
	if errors.Is(err, supervisor.ErrExists) {
		started, _, err = supervisor.Adopt(ctx, a.path("attempts"), t.key)
	}
	return started, err
}

// runAdopted takes the rest of the course of an attempt that an earlier agent has started.
func (t *attempt) runAdopted(ctx context.Context) {
	started, status, err := supervisor.Adopt(ctx, t.set.agent.path("attempts"), t.key)
	if err != nil {
		t.set.agent.config.Log.Error("attempt not adopted", "attempt", t.key, "error", err)
		t.set.gone(t)
		return
	}
	t.set.agent.config.Log.Info("attempt adopted", "attempt", t.key, "state", status.State)
	t.finish(started)
}

// finish waits until an attempt that was started has ended, reports that, and cleans up. It goes on
// without a stream.
func (t *attempt) finish(started *supervisor.Attempt) {
	ctx := context.Background()
	t.mu.Lock()
	t.runs = started
	t.mu.Unlock()
	t.update() // replicas may have moved in the meantime
	t.endPreparing()
	done := make(chan struct{})
	go func() {
		select {
		case <-t.stopping:
			_ = started.Stop(ctx, t.grace) // the end is waited for below
		case <-done:
		}
	}()
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		t.awaitRunning(ctx, started, done)
		t.saves.run(started, done)
	}()
	status, err := started.Wait(ctx)
	close(done)
	<-saved
	if err != nil {
		lost := launch.UnknownExit(0, "its supervisor is lost: "+err.Error())
		status.Processes = []supervisor.ProcessStatus{{Exit: &lost}}
	}
	t.ended(status)
	t.awaitRelease()
}

// awaitRunning reports that all processes run. Restored ones do once phosd says so.
func (t *attempt) awaitRunning(ctx context.Context, started *supervisor.Attempt, done <-chan struct{}) {
	status, err := started.Started(ctx)
	if err != nil || status.State != supervisor.Running {
		return
	}
	if from, restored := restoreOf(started); restored {
		t.work = filepath.Dir(from.Tell)
		if told, found := awaitRestored(from, done); !found || told.Error != "" {
			return
		}
	}
	t.reconnect()
	t.say(func(r *api.Report) { r.State, r.Progress, r.StartedUnixMs = "running", "", status.Started.UnixMilli() })
}

// ended reports the end.
func (t *attempt) ended(status supervisor.Status) {
	t.endPreparing()
	if len(status.Exits()) > 0 && failed(&status) {
		_ = t.connect(false) // what it has not sent comes from an attempt that is over
	}
	t.explainRestore(&status)
	image := t.saves.endedBy(&status)
	t.say(func(r *api.Report) {
		r.State, r.Progress, r.Fenced = "ended", "", status.Reason == supervisor.Fenced
		r.EndedUnixMs = status.Ended.UnixMilli()
		if image != nil {
			image.into(r)
			r.Saved, r.Save, r.SaveError = true, t.saves.number(), ""
			return
		}
		r.Exits = messages.Exits(exitsOf(&status))
	})
}

// failed reports whether a process has not succeeded.
func failed(status *supervisor.Status) bool {
	return slices.ContainsFunc(status.Exits(), func(e launch.Exit) bool { return !e.OK() })
}

// exitsOf returns how processes ended. A supervisor that was killed before it had an order has
// started none.
func exitsOf(status *supervisor.Status) []launch.Exit {
	exits := status.Exits()
	if status.Reason == supervisor.Lost && len(exits) == 0 {
		return []launch.Exit{{Error: status.Detail}}
	}
	return exits
}

// awaitRelease waits until the leader has the report, and cleans up.
func (t *attempt) awaitRelease() {
	<-t.released
	a := t.set.agent
	go t.leaveNetwork()
	_, saved := os.Stat(a.path("images", t.key.String()))                         // by this agent or an earlier one
	if t.last().GetImage() == nil && saved != nil && t.work == a.workDir(t.key) { // an image needs the directory
		if err := os.RemoveAll(t.work); err != nil {
			a.config.Log.Warn("working directory stays", "attempt", t.key, "error", err)
		}
	}
	mark := filepath.Join(a.path("attempts"), t.key.String(), releasedName)
	if err := os.WriteFile(mark, nil, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
		a.config.Log.Warn("attempt stays listed", "attempt", t.key, "error", err)
	}
	t.set.gone(t)
}

// extendTime is how long a supervisor may take to answer.
const extendTime = 2 * time.Second

// extend moves the deadline of the supervisor, if there is one.
func (t *attempt) extend(ctx context.Context, until time.Duration) {
	runs := t.started()
	if runs == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, extendTime)
	defer cancel()
	err := runs.Extend(ctx, until)
	if err != nil && !errors.Is(err, supervisor.ErrEnded) && !errors.Is(err, supervisor.ErrFenced) {
		t.set.agent.config.Log.Warn("deadline not extended", "attempt", t.key, "error", err)
	}
}
