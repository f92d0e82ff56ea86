package launch

import "slices"

// Phase is how far a launch has come.
type Phase string

// The phases of a launch. It leaves each of them by itself, except Suspended and Ended.
const (
	// Waiting waits for the launches in Spec.After.
	Waiting Phase = "waiting"
	// Queued waits for free GPUs and nodes.
	Queued Phase = "queued"
	// Running means that its replicas are placed.
	Running Phase = "running"
	// Stopping waits until no process is left. State.Goal says what follows.
	Stopping Phase = "stopping"
	// Suspended waits until a user resumes it, with images or without.
	Suspended Phase = "suspended"
	// Ended is final.
	Ended Phase = "ended"
)

// Result is how a launch has ended.
type Result string

// The results of launches.
const (
	Completed Result = "completed"
	Failed    Result = "failed"
	Stopped   Result = "stopped"
)

// Goal is what follows when no process is left.
type Goal string

// The goals of a launch that stops.
const (
	ToEnd     Goal = "end"
	ToQueue   Goal = "queue"
	ToSuspend Goal = "suspend"
)

// State is a launch and its course so far. Apply makes the next one; nothing else changes it.
type State struct {
	Spec  Spec  `json:"spec"`
	Phase Phase `json:"phase"`
	// Goal is set while Stopping. Cutting means that the processes are saved in one cut, and stopped
	// by that; Ending means that this cut is complete.
	Goal    Goal `json:"goal,omitempty"`
	Cutting bool `json:"cutting,omitempty"`
	Ending  bool `json:"ending,omitempty"`
	// Result is set with ToEnd and when Ended. Reason says why the launch stops or has ended.
	Result Result `json:"result,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Generation grows when replicas join or leave. Processes see it as PHOS_GENERATION.
	Generation int `json:"generation"`
	// Cut has the images of the last consistent save, by replica. If all start again, these start
	// together, from them.
	Cut map[int]string `json:"cut,omitempty"`
	// Replicas are those of all jobs, in their order.
	Replicas []Replica `json:"replicas"`
}

// Replica is one replica and its course.
type Replica struct {
	Job   int `json:"job"`
	Index int `json:"index"`
	// Attempt grows with each start. What an agent says of an earlier attempt is stale.
	Attempt int `json:"attempt"`
	// Live means that processes of this attempt may exist, on Node.
	Live    bool `json:"live,omitempty"`
	Started bool `json:"started,omitempty"`
	// Leaving means that it was asked to end, while the others go on.
	Leaving bool   `json:"leaving,omitempty"`
	Node    string `json:"node,omitempty"`
	GPUs    []int  `json:"gpus,omitempty"`
	Port    int    `json:"port,omitempty"`
	// Done means that it has succeeded, Lost that it has failed for good and the others go on.
	Done bool `json:"done,omitempty"`
	Lost bool `json:"lost,omitempty"`
	// Retries are those that were used.
	Retries int `json:"retries,omitempty"`
	// Image is what the attempt starts from; empty: from the beginning.
	Image string `json:"image,omitempty"`
	// Exits are how the processes of the last attempt ended.
	Exits []Exit `json:"exits,omitempty"`
}

// New returns the state of a launch that was just submitted. The Spec must be checked.
func New(spec Spec) State {
	s := State{Spec: spec, Phase: Queued}
	if len(spec.After) > 0 {
		s.Phase = Waiting
	}
	for i, job := range spec.Jobs {
		for k := range job.Replicas.Max {
			s.Replicas = append(s.Replicas, Replica{Job: i, Index: k})
		}
	}
	return s
}

// clone returns a State that shares nothing that Apply changes.
func (s State) clone() State {
	s.Replicas = slices.Clone(s.Replicas)
	return s
}

// live returns whether any process may exist.
func (s *State) live() bool {
	return slices.ContainsFunc(s.Replicas, func(r Replica) bool { return r.Live })
}

// pending reports whether a replica has yet to succeed and is not placed.
func (r *Replica) pending() bool { return !r.Live && !r.Done && !r.Lost }

// count returns how many replicas of a job satisfy a condition.
func (s *State) count(job int, holds func(*Replica) bool) (n int) {
	for i := range s.Replicas {
		if s.Replicas[i].Job == job && holds(&s.Replicas[i]) {
			n++
		}
	}
	return n
}
