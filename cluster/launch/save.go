package launch

import (
	"fmt"
	"slices"
)

// Occasion is why a launch is saved and stopped.
type Occasion string

// The occasions.
const (
	OnSuspend Occasion = "suspend"
	OnPreempt Occasion = "preempt"
	OnDrain   Occasion = "drain"
)

// CheckSavable returns an error, ErrRefused, if a launch cannot be saved: replicas that are saved
// at different moments would not agree with each other when they go on, and this version saves one
// replica, with all its processes, at a time.
func (s *Spec) CheckSavable() error {
	replicas := 0
	for _, job := range s.Jobs {
		replicas += job.Replicas.Max
	}
	if replicas > 1 {
		return fmt.Errorf("%w: it has %d replicas; this version saves launches of one replica, with all its processes "+
			"(several processes on one node can be one replica; an array makes independent ones launches of their own)",
			ErrRefused, replicas)
	}
	return nil
}

// Generations returns how many generations of an attempt's image stay.
func (p *Checkpoint) Generations() int {
	if p.Keep == 0 {
		return 3
	}
	return p.Keep
}

// Saves reports whether a launch wants to be saved on an occasion. To suspend it is to ask
// for that.
func (p *Checkpoint) Saves(on Occasion) bool {
	return len(p.On) == 0 || on == OnSuspend || slices.Contains(p.On, string(on))
}
