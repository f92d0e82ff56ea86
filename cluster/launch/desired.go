package launch

import "slices"

// Order is what an agent shall make true of one replica.
type Order struct {
	Assignment
	Attempt    int    `json:"attempt"`
	Generation int    `json:"generation"`
	Do         Do     `json:"do"`
	Image      string `json:"image,omitempty"`
}

// Do is what shall become of a replica.
type Do string

// What may become of a replica.
const (
	// Run starts it, once.
	Run Do = "run"
	// Save saves it in one cut with the others, and stops it.
	Save Do = "save"
	// End ends it without going on: it is in a cut that is complete.
	End Do = "end"
	// Stop stops it.
	Stop Do = "stop"
)

// Orders returns what shall be on nodes. A replica that is not listed shall have no process
// anywhere. The orders follow from the state alone, so they may be given any number of times.
func (s State) Orders() (orders []Order) {
	do := Run
	switch {
	case s.Cutting:
		do = Save
	case s.Ending:
		do = End
	case s.Phase == Stopping:
		do = Stop
	}
	for i, r := range s.Replicas {
		if !r.Live {
			continue
		}
		order := Order{
			Assignment: Assignment{Replica: i, Node: r.Node, GPUs: r.GPUs, Port: r.Port},
			Attempt:    r.Attempt, Generation: s.Generation, Do: do, Image: r.Image,
		}
		if r.Leaving {
			order.Do = Stop
		}
		orders = append(orders, order)
	}
	return orders
}

// Pending is what of a launch waits for places.
type Pending struct {
	// Together are replicas that start at once or not at all.
	Together []int
	// Single are replicas that may join one by one.
	Single []int
}

// Pending returns which replicas wait for room.
func (s State) Pending() (p Pending) {
	if s.Phase != Queued && s.Phase != Running {
		return Pending{}
	}
	if s.Phase == Queued {
		p.Together = s.together()
	}
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if r.pending() && s.joins(i) && !slices.Contains(p.Together, i) {
			p.Single = append(p.Single, i)
		}
	}
	return p
}

// joins reports whether a replica may join others that run. One of a range joins only while no
// other has ended, or if the launch cannot complete without it, and never beside replicas that
// start from images.
func (s *State) joins(replica int) bool {
	r := &s.Replicas[replica]
	job := s.Spec.Jobs[r.Job]
	if !job.Replicas.Elastic() || job.OnReplicaFailure == KeepOthers {
		return true
	}
	ended := s.count(r.Job, func(r *Replica) bool { return r.Done || r.Lost })
	return (ended == 0 || s.owes(r)) && (s.Phase == Running || len(s.Cut) == 0)
}

// Equal reports whether two orders are the same.
func (o Order) Equal(other Order) bool {
	return o.Replica == other.Replica && o.Node == other.Node && slices.Equal(o.GPUs, other.GPUs) && o.Port == other.Port &&
		o.Attempt == other.Attempt && o.Generation == other.Generation && o.Do == other.Do && o.Image == other.Image
}

// SameAttempt reports whether two orders are about the same attempt of a replica.
func (o Order) SameAttempt(other Order) bool {
	return o.Replica == other.Replica && o.Attempt == other.Attempt
}
