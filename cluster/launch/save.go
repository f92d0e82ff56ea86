package launch

import "slices"

// Occasion is why a launch is saved and stopped.
type Occasion string

// The occasions.
const (
	OnSuspend Occasion = "suspend"
	OnPreempt Occasion = "preempt"
	OnDrain   Occasion = "drain"
)

// SavedTogether returns how many replicas are saved in one cut: those of all jobs, if they are
// several. Otherwise it returns 0. Replicas that were saved at different moments would not agree
// with each other when they go on.
func (s *Spec) SavedTogether() int {
	replicas := 0
	for _, job := range s.Jobs {
		replicas += job.Replicas.Max
	}
	if replicas == 1 {
		return 0
	}
	return replicas
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
