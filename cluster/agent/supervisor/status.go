package supervisor

import (
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Status is how far an attempt has come: status.json, and what a supervisor answers.
type Status struct {
	Key
	Epoch int64 `json:"epoch,omitempty"`
	State State `json:"state"`
	// Reason is set when the attempt ends; Detail is for people.
	Reason Reason `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Supervisor and the processes are of this boot.
	BootID     string        `json:"boot_id"`
	Supervisor proc.Identity `json:"supervisor"`
	// Cgroup is the path of the processes' cgroup, below the topmost ones.
	Cgroup    string          `json:"cgroup"`
	Processes []ProcessStatus `json:"processes"`
	// Trunk is the parent of the processes, if the Spec has one.
	Trunk   proc.Identity `json:"trunk,omitzero"`
	Started time.Time     `json:"started,omitzero"`
	Ended   time.Time     `json:"ended,omitzero"`
	// OOMKills counts what the kernel has killed at the memory limit, also children of the processes.
	OOMKills uint64 `json:"oom_kills,omitempty"`
	// Blocked says which processes cannot be killed now. The attempt ends when they can.
	Blocked string `json:"blocked,omitempty"`
}

// ProcessStatus is one process of the Spec.
type ProcessStatus struct {
	// Identity is zero before it is started, and if it could not be.
	proc.Identity
	// Exit is how it ended; nil: not yet.
	Exit *launch.Exit `json:"exit,omitempty"`
}

// State is how far an attempt has come.
type State string

// The states, in their order.
const (
	// Starting means that not all processes are started.
	Starting State = "starting"
	// Running means that all were, and none has failed.
	Running State = "running"
	// Ending means that what is left is being ended.
	Ending State = "ending"
	// Ended means that no process is left.
	Ended State = "ended"
)

// Reason is why an attempt has ended.
type Reason string

// The reasons.
const (
	// Completed means that all processes succeeded.
	Completed Reason = "completed"
	// Failed means that a process did not.
	Failed Reason = "failed"
	// Stopped means that Stop was called.
	Stopped Reason = "stopped"
	// Killed means that Kill was called.
	Killed Reason = "killed"
	// Fenced means that the deadline passed.
	Fenced Reason = "fenced"
	// Lost means that the supervisor was killed, and the processes with it.
	Lost Reason = "lost"
	// Rebooted means that the machine was started again.
	Rebooted Reason = "rebooted"
)

// Exits returns how the processes ended that have.
func (s *Status) Exits() (exits []launch.Exit) {
	for _, each := range s.Processes {
		if each.Exit != nil {
			exits = append(exits, *each.Exit)
		}
	}
	return exits
}

// Pids returns the processes that were started and have not ended: the roots of the attempt's
// process trees.
func (s *Status) Pids() (pids []proc.Identity) {
	for _, each := range s.Processes {
		if each.Exit == nil && each.PID != 0 {
			pids = append(pids, each.Identity)
		}
	}
	return pids
}

// course is how far the attempt is, as all goroutines of a supervisor see it.
type course struct {
	mu     sync.Mutex // guards status and next
	status Status
	// next is closed at the next change.
	next chan struct{}
}

func newCourse(status Status) *course { return &course{status: status, next: make(chan struct{})} }

// change changes the Status.
func (c *course) change(how func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(&c.status)
	close(c.next)
	c.next = make(chan struct{})
}

// now returns the Status, and what is closed at its next change.
func (c *course) now() (Status, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := c.status
	status.Processes = slices.Clone(status.Processes)
	return status, c.next
}

// state returns how far the attempt is.
func (c *course) state() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status.State
}

// await waits until a condition on the Status holds. It returns false if stop is closed before.
func (c *course) await(stop <-chan struct{}, holds func(*Status) bool) (Status, bool) {
	for {
		status, next := c.now()
		if holds(&status) {
			return status, true
		}
		select {
		case <-next:
		case <-stop:
			return status, false
		}
	}
}
