package hollow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
)

// bootID is that of all hollow nodes: they do not boot.
const bootID = "hollow"

// Fleet is the hollow nodes of this process.
type Fleet struct {
	Nodes []*Node

	stop     context.CancelFunc
	alive    sync.WaitGroup
	renewals atomic.Int64

	mu sync.Mutex
	// running are the attempts that run, in the order of their starts.
	running []*held
	// starts counts the starts of each attempt.
	starts map[string]int
	// reuses are the times from the end of a GPU's user to the start of its next one.
	reuses []time.Duration
	faults []string
	// first is when the first attempt was started by a leader, by its epoch.
	first map[uint64]time.Time
}

// Started returns how many attempts were started so far.
func (f *Fleet) Started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.starts)
}

// FirstStart returns when the newest leader has started its first attempt.
func (f *Fleet) FirstStart() (epoch uint64, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for each := range f.first {
		epoch = max(epoch, each)
	}
	return epoch, f.first[epoch]
}

// Renewals returns how many renewals of leases were answered so far.
func (f *Fleet) Renewals() int { return int(f.renewals.Load()) }

// Reuses returns the times that it took to give a GPU to its next user, and forgets them.
func (f *Fleet) Reuses() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	reuses := f.reuses
	f.reuses = nil
	return reuses
}

// Faults returns what controllers have done wrong.
func (f *Fleet) Faults() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faults
}

// EndOldest ends the attempt that has run for the longest time, with an exit status. It reports
// false if none runs.
func (f *Fleet) EndOldest(status int32) bool {
	for {
		t := f.oldest()
		if t == nil {
			return false
		}
		if t.node.endRunning(t, status) {
			return true
		}
	}
}

// endRunning ends an attempt, unless it was ended by an order.
func (n *Node) endRunning(t *held, status int32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.last.GetState() != "running" {
		return false
	}
	n.end(t, &api.Exit{Code: status})
	return true
}

// oldest takes the attempt that was started first.
func (f *Fleet) oldest() *held {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.running) == 0 {
		return nil
	}
	t := f.running[0]
	f.running = f.running[1:]
	return t
}

// Close ends all nodes' connections.
func (f *Fleet) Close() {
	f.stop()
	f.alive.Wait()
}

// fault notes what a controller has done wrong.
func (f *Fleet) fault(format string, arguments ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fmt.Sprintf(format, arguments...))
}

// started notes the start of an attempt, by the leader of an epoch.
func (f *Fleet) started(name string, t *held, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first[epoch].IsZero() {
		f.first[epoch] = time.Now()
	}
	f.running = append(f.running, t)
	if f.starts[name]++; f.starts[name] > 1 {
		f.faults = append(f.faults, "attempt "+name+" was started twice")
	}
}

// reused notes how long a GPU had no user.
func (f *Fleet) reused(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reuses = append(f.reuses, after)
}
