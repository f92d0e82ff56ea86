package launch

import "fmt"

// Event is something that happened to a launch.
type Event interface{ apply(s *State) error }

// Exit is how a process ended.
type Exit struct {
	// Process is its index in the replica.
	Process int `json:"process"`
	// Code is negative if it is not known how the process ended.
	Code   int `json:"code,omitempty"`
	Signal int `json:"signal,omitempty"`
	// OutOfMemory means that the kernel killed it at its memory limit.
	OutOfMemory bool `json:"out_of_memory,omitempty"`
	// Error says why it did not start, or why it is not known how it ended.
	Error string `json:"error,omitempty"`
	// Stopped means that its end was ordered: its replica had failed or was to stop.
	Stopped bool `json:"stopped,omitempty"`
}

// UnknownExit is that of a process which may have run, and of whose end nothing is known.
func UnknownExit(process int, why string) Exit { return Exit{Process: process, Code: -1, Error: why} }

// OK reports whether the process succeeded.
func (e Exit) OK() bool { return e == Exit{Process: e.Process} }

func (e Exit) String() string {
	switch {
	case e.Code < 0:
		return "ended in an unknown way: " + e.Error
	case e.Error != "":
		return "did not start: " + e.Error
	case e.OutOfMemory:
		return "was killed: out of memory"
	case e.Signal != 0:
		return fmt.Sprintf("was ended by signal %d", e.Signal)
	}
	return fmt.Sprintf("ended with status %d", e.Code)
}

// Events that the controller or an agent reports.
type (
	// DependenciesCompleted means that the launches that it comes after have completed.
	DependenciesCompleted struct{}
	// DependencyFailed means that one of them will not.
	DependencyFailed struct{ ID string }
	// NoRoom means that the cluster has no room now.
	NoRoom struct{ Missing string }
	// Placed gives replicas nodes.
	Placed struct{ Assignments []Assignment }
	// ReplicaStarted means that all its processes run.
	ReplicaStarted struct{ Replica, Attempt int }
	// ReplicaEnded means that no process of the attempt exists.
	ReplicaEnded struct {
		Replica, Attempt int
		Exits            []Exit
	}
	// ReplicaLost means that no process of the attempt exists, through no fault of its own: its node
	// was cut off, it was stopped before it started, or it was saved and stopped.
	ReplicaLost struct {
		Replica, Attempt int
		Reason           string
	}
	// NodeGone means that certainly no process of the launch runs on a node.
	NodeGone struct{ Node string }
	// Saved means that all live replicas were saved in one cut, and stopped. Images has one for
	// each.
	Saved struct{ Images map[int]string }
	// CutTaken means that the images of a cut that stops the launch are complete. Its live replicas
	// are frozen; they end without going on. Images has one for each.
	CutTaken struct{ Images map[int]string }
	// Checkpointed means that all live replicas were saved in one cut, and go on.
	Checkpointed struct{ Images map[int]string }
	// ImagesLost means that the images of the last cut can no longer be read. Instead has older ones,
	// for the same replicas; none: the launch starts from its beginning.
	ImagesLost struct{ Instead map[int]string }
	// SaveFailed means that the processes still run. A restartable launch is stopped and queued
	// again; any other runs on.
	SaveFailed struct{ Problem string }
	// TimeLimitReached means that it has run for Spec.TimeLimit.
	TimeLimitReached struct{}
	// NodeDrained asks the replicas on a node to end, if the others can go on without them. They wait
	// for other places then.
	NodeDrained struct{ Node string }
	// Preempted means that a policy takes its GPUs.
	Preempted struct{ Reason string }
)

// Events that a user asks for.
type (
	// StopRequested ends the launch.
	StopRequested struct{ By string }
	// SuspendRequested saves it and gives its GPUs back.
	SuspendRequested struct{ By string }
	// ResumeRequested queues a suspended launch.
	ResumeRequested struct{ By string }
)

// Assignment places one replica.
type Assignment struct {
	Replica int    `json:"replica"`
	Node    string `json:"node"`
	GPUs    []int  `json:"gpus,omitempty"`
	// Port is the first of the ports that are reserved for the replica on its node: that of torch's
	// rendezvous, then those that processes name, in their order.
	Port int `json:"port,omitempty"`
}
