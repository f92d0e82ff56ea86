package launch

import (
	"errors"
	"fmt"
	"slices"
)

// ErrRefused is returned for an event that the launch's phase does not allow.
var ErrRefused = errors.New("refused")

// Apply returns the state after an event. Reports of agents that are late or repeated change
// nothing. The error is ErrRefused for what a user may not ask for now, and for placements that
// break a rule; the state is then the same.
func (s State) Apply(e Event) (State, error) {
	next := s.clone()
	if err := e.apply(&next); err != nil {
		return s, err
	}
	next.settle()
	return next, nil
}

// settle draws the conclusions of what has changed.
func (s *State) settle() {
	if s.Phase == Running || s.Phase == Stopping && !s.live() {
		s.settleRunning()
	}
	if s.Phase == Stopping && !s.live() {
		s.reachGoal()
	}
}

// settleRunning ends a launch whose replicas have all ended, as far as it needs them.
func (s *State) settleRunning() {
	lost := false
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if !r.Done && !r.Lost && s.owes(r) {
			return
		}
		lost = lost || r.Lost
	}
	if lost {
		s.stop(ToEnd, Failed, "replicas have failed")
		return
	}
	s.stop(ToEnd, Completed, "")
}

// owes reports whether the launch cannot complete without a replica. Replicas above the least of a
// range that have never joined, or have left, are not waited for.
func (s *State) owes(r *Replica) bool {
	if r.Live {
		return true
	}
	ended := s.count(r.Job, func(r *Replica) bool { return r.Done || r.Lost })
	return ended < s.Spec.Jobs[r.Job].Replicas.Min
}

// reachGoal is what follows when no process is left.
func (s *State) reachGoal() {
	switch s.Goal {
	case ToEnd:
		s.Phase = Ended
	case ToQueue:
		s.Phase = Queued
	case ToSuspend:
		s.Phase = Suspended
	}
	if s.Phase != Ended {
		s.Generation++
	}
	s.Goal, s.Cutting, s.Ending = "", false, false
}

// stop begins to stop all processes. A launch that is about to end stays so, with its first result.
func (s *State) stop(goal Goal, result Result, reason string) {
	if s.Phase == Ended || s.Phase == Stopping && s.Goal == ToEnd {
		return
	}
	s.Phase, s.Goal, s.Cutting, s.Ending, s.Result, s.Reason = Stopping, goal, false, false, result, reason
}

// restart stops all processes, to start all replicas again from their images, if they have any.
func (s *State) restart(reason string) {
	goal := ToQueue
	if s.Phase == Stopping && s.Goal == ToSuspend {
		goal = ToSuspend // the user's wish holds
	}
	s.stop(goal, "", reason)
	for i := range s.Replicas {
		// They work together: what has ended since the cut is needed again.
		if len(s.Cut) == 0 || s.Cut[i] != "" {
			s.Replicas[i].Done = false
		}
	}
}

// save begins to save all live replicas, and to stop them by that.
func (s *State) save(goal Goal, reason string) {
	s.Phase, s.Goal, s.Cutting, s.Result, s.Reason = Stopping, goal, true, "", reason
}

// apply queues a launch that has waited for others.
func (e DependenciesCompleted) apply(s *State) error {
	if s.Phase == Waiting {
		s.Phase = Queued
	}
	return nil
}

// apply ends a launch that can no longer begin.
func (e DependencyFailed) apply(s *State) error {
	if !slices.Contains(s.Spec.After, e.ID) {
		return fmt.Errorf("%w: the launch does not come after %s", ErrRefused, e.ID)
	}
	if s.Phase == Waiting {
		s.stop(ToEnd, Failed, e.ID+" did not complete")
	}
	return nil
}

// apply ends a launch that does not want to wait for its first places.
func (e NoRoom) apply(s *State) error {
	if s.Phase == Queued && s.Spec.Queue == Refuse && s.Generation == 0 {
		s.stop(ToEnd, Failed, "no room: "+e.Missing)
	}
	return nil
}

// apply starts attempts on the nodes, if all are there that start together.
func (e Placed) apply(s *State) error {
	if s.Phase != Queued && s.Phase != Running {
		return fmt.Errorf("%w: a launch that is %s cannot be placed", ErrRefused, s.Phase)
	}
	for _, a := range e.Assignments {
		if a.Replica < 0 || a.Replica >= len(s.Replicas) || !s.Replicas[a.Replica].pending() {
			return fmt.Errorf("%w: replica %d does not wait for a place", ErrRefused, a.Replica)
		}
		r := &s.Replicas[a.Replica]
		r.Attempt++
		r.Live, r.Started, r.Leaving, r.Exits = true, false, false, nil
		r.Node, r.GPUs, r.Port = a.Node, slices.Clone(a.GPUs), a.Port
		r.Image = s.imageFor(a.Replica)
	}
	if lacking := s.together(); s.Phase == Queued && len(lacking) > 0 {
		return fmt.Errorf("%w: replicas %v have no place: all start together", ErrRefused, lacking)
	}
	s.Phase, s.Reason = Running, ""
	s.Generation++
	return nil
}

// imageFor returns the image from which a replica starts. One that joins a launch that runs starts
// from the beginning, unless the replicas are independent of each other.
func (s *State) imageFor(replica int) string {
	if s.Phase == Running && s.Spec.Jobs[s.Replicas[replica].Job].OnReplicaFailure != KeepOthers {
		return ""
	}
	return s.Cut[replica]
}

// together returns the replicas that wait for places and can only start at once: those of the last
// cut, or else the least number of each job.
func (s *State) together() (lacking []int) {
	missing := make([]int, len(s.Spec.Jobs))
	for job := range missing {
		there := s.count(job, func(r *Replica) bool { return !r.pending() })
		missing[job] = s.Spec.Jobs[job].Replicas.Min - there
	}
	for i := range s.Replicas {
		r := &s.Replicas[i]
		switch {
		case !r.pending():
		case len(s.Cut) > 0 && s.Cut[i] != "":
			lacking = append(lacking, i)
		case len(s.Cut) == 0 && missing[r.Job] > 0:
			missing[r.Job]--
			lacking = append(lacking, i)
		}
	}
	return lacking
}

// find returns the replica of a report, or nil if the report is late.
func (s *State) find(replica, attempt int) *Replica {
	if replica < 0 || replica >= len(s.Replicas) {
		return nil
	}
	if r := &s.Replicas[replica]; r.Live && r.Attempt == attempt {
		return r
	}
	return nil
}

// apply notes that the processes run.
func (e ReplicaStarted) apply(s *State) error {
	if r := s.find(e.Replica, e.Attempt); r != nil {
		r.Started = true
	}
	return nil
}

// apply notes the end of an attempt, and what follows for the others.
func (e ReplicaEnded) apply(s *State) error {
	r := s.find(e.Replica, e.Attempt)
	if r == nil {
		return nil
	}
	left := r.Leaving
	r.Live, r.Leaving, r.Exits = false, false, slices.Clone(e.Exits)
	cause := failure(e.Exits)
	switch {
	case s.Phase == Stopping && !s.Cutting:
		// Its end was ordered, or makes no difference.
	case cause == nil:
		r.Done = true
	case left && s.Cutting:
		// It is not in the cut, and waits for another place like those.
	case left:
		s.replace(r, "node "+r.Node+" is drained")
	default:
		s.replicaFailed(r, *cause)
	}
	return nil
}

// failure returns why a replica has failed: the first process that did by itself; nil if all
// succeeded.
func failure(exits []Exit) *Exit {
	for i := range exits {
		if !exits[i].OK() && !exits[i].Stopped {
			return &exits[i]
		}
	}
	for i := range exits {
		if !exits[i].OK() {
			return &exits[i]
		}
	}
	return nil
}

// replicaFailed tries a replica again, or else lets the launch fail.
func (s *State) replicaFailed(r *Replica, cause Exit) {
	job := s.Spec.Jobs[r.Job]
	what := fmt.Sprintf("%s[%d]: process %d %s", job.Name, r.Index, cause.Process, cause)
	switch {
	case r.Retries < job.Retries && job.retries(cause):
		r.Retries++
		s.replace(r, what)
	case job.OnReplicaFailure == KeepOthers:
		r.Lost = true
	default:
		s.stop(ToEnd, Failed, what)
	}
}

// retries reports whether a failure is one after which the job is tried again.
func (j *Job) retries(cause Exit) bool {
	return len(j.RetryOn) == 0 || cause.Code != 0 && slices.Contains(j.RetryOn, cause.Code)
}

// replace counts a replica that is gone as one that waits for another place. If the others cannot
// go on without it, all start again.
func (s *State) replace(r *Replica, reason string) {
	job := s.Spec.Jobs[r.Job]
	whole := s.count(r.Job, func(r *Replica) bool { return r.Live || r.Done }) >= job.Replicas.Min
	if s.Phase == Running && (job.OnReplicaFailure == KeepOthers || job.Replicas.Elastic() && whole) {
		s.Generation++
		return
	}
	s.restart(reason)
}

// apply notes that the replica waits for another place.
func (e ReplicaLost) apply(s *State) error {
	if e.Replica < 0 || e.Replica >= len(s.Replicas) {
		return fmt.Errorf("%w: there is no replica %d", ErrRefused, e.Replica)
	}
	if r := s.find(e.Replica, e.Attempt); r != nil {
		s.lose(r, e.Reason)
	}
	return nil
}

// apply notes that the replicas of the node wait for other places.
func (e NodeGone) apply(s *State) error {
	for i := range s.Replicas {
		if r := &s.Replicas[i]; r.Live && r.Node == e.Node {
			s.lose(r, "node "+e.Node+" is gone")
		}
	}
	return nil
}

// lose notes that a replica has lost its processes. It waits for another place.
func (s *State) lose(r *Replica, reason string) {
	r.Live, r.Leaving = false, false
	if s.Phase == Running || s.Cutting {
		s.replace(r, reason)
	}
}

// apply keeps the cut. Its replicas have been stopped by it.
func (e Saved) apply(s *State) error {
	if !s.Cutting {
		return nil
	}
	if err := s.setCut(e.Images); err != nil {
		return err
	}
	for i := range s.Replicas {
		s.Replicas[i].Live = s.Replicas[i].Live && s.Replicas[i].Leaving
	}
	return nil
}

// apply keeps the cut. What was saved for it ends now, in any case.
func (e CutTaken) apply(s *State) error {
	if !s.Cutting {
		return nil
	}
	if err := s.setCut(e.Images); err != nil {
		return err
	}
	s.Cutting, s.Ending = false, true
	return nil
}

// apply keeps the cut.
func (e Checkpointed) apply(s *State) error {
	if s.Phase != Running && !s.Cutting {
		return nil
	}
	return s.setCut(e.Images)
}

// setCut takes the images of a cut. There must be one for each live replica that was not asked to
// end.
func (s *State) setCut(images map[int]string) error {
	cut := make(map[int]string, len(images))
	for i := range s.Replicas {
		if !s.Replicas[i].Live || s.Replicas[i].Leaving {
			continue
		}
		if images[i] == "" {
			return fmt.Errorf("%w: replica %d has no image", ErrRefused, i)
		}
		cut[i] = images[i]
	}
	s.Cut = cut
	return nil
}

// apply drops the cut, or goes back to an older one. Without one, all that waits to go on from it
// begins, so what has ended is needed again.
func (e ImagesLost) apply(s *State) error {
	if len(s.Cut) == 0 || s.Phase == Ended || s.Phase == Stopping && s.Goal == ToEnd {
		return nil
	}
	s.Cut = e.Instead
	if s.Phase == Running || len(s.Cut) > 0 {
		return nil // what runs goes on
	}
	for i := range s.Replicas {
		s.Replicas[i].Done = false
	}
	return nil
}

// apply lets the launch go on, or stops it without images if it may be restarted.
func (e SaveFailed) apply(s *State) error {
	switch {
	case !s.Cutting:
	case s.Spec.Restartable:
		s.restart("could not be saved: " + e.Problem)
	default:
		s.Phase, s.Goal, s.Cutting, s.Reason = Running, "", false, "could not be saved: "+e.Problem
	}
	return nil
}

// apply ends the launch.
func (e TimeLimitReached) apply(s *State) error {
	if s.Phase == Running {
		s.stop(ToEnd, Failed, "time limit reached")
	}
	return nil
}

// apply asks the replicas on the node to end. All of them do, or none.
func (e NodeDrained) apply(s *State) error {
	if s.Phase != Running {
		return fmt.Errorf("%w: a launch that is %s does not go on without a node", ErrRefused, s.Phase)
	}
	for number := range s.Spec.Jobs {
		if err := s.canLeave(number, e.Node); err != nil {
			return err
		}
	}
	for i := range s.Replicas {
		if r := &s.Replicas[i]; r.Live && r.Node == e.Node {
			r.Leaving = true
		}
	}
	return nil
}

// canLeave says why the replicas of a job on a node cannot end while the others go on; nil: they
// can. Replicas that do not work together lose what they have done, unless they may be restarted.
func (s *State) canLeave(number int, node string) error {
	job := &s.Spec.Jobs[number]
	if s.count(number, func(r *Replica) bool { return r.Live && r.Node == node }) == 0 {
		return nil
	}
	others := s.count(number, func(r *Replica) bool { return r.Done || r.Live && !r.Leaving && r.Node != node })
	switch {
	case !job.Replicas.Elastic():
		return fmt.Errorf("%w: job %s needs all its replicas", ErrRefused, job.Name)
	case others < job.Replicas.Min:
		return fmt.Errorf("%w: job %s would have %d replicas, and needs %d", ErrRefused, job.Name, others, job.Replicas.Min)
	case job.OnReplicaFailure == KeepOthers && !s.Spec.Restartable:
		return fmt.Errorf("%w: the replicas of job %s are not restartable", ErrRefused, job.Name)
	}
	return nil
}

// apply takes the places of a launch, which is queued again.
func (e Preempted) apply(s *State) error {
	if s.Phase != Running {
		return fmt.Errorf("%w: a launch that is %s cannot be preempted", ErrRefused, s.Phase)
	}
	s.save(ToQueue, e.Reason)
	return nil
}

// apply ends the launch, whatever it is doing.
func (e StopRequested) apply(s *State) error {
	if s.Phase == Ended {
		return fmt.Errorf("%w: the launch has already ended: %s", ErrRefused, s.Result)
	}
	s.stop(ToEnd, Stopped, "stopped by "+e.By)
	return nil
}

// apply saves the launch and gives its places back, until a user resumes it.
func (e SuspendRequested) apply(s *State) error {
	switch {
	case s.Phase == Queued:
		s.Phase, s.Reason = Suspended, "suspended by "+e.By
	case s.Phase == Running:
		s.save(ToSuspend, "suspended by "+e.By)
	case s.Phase == Stopping && s.Goal == ToQueue:
		s.Goal, s.Reason = ToSuspend, "suspended by "+e.By
	default:
		return fmt.Errorf("%w: a launch that is %s cannot be suspended", ErrRefused, s.Phase)
	}
	return nil
}

// apply queues a suspended launch.
func (e ResumeRequested) apply(s *State) error {
	switch {
	case s.Phase == Suspended:
		s.Phase, s.Reason = Queued, ""
	case s.Phase == Stopping && s.Goal == ToSuspend:
		s.Goal, s.Reason = ToQueue, "resumed by "+e.By
	default:
		return fmt.Errorf("%w: a launch that is %s is not suspended", ErrRefused, s.Phase)
	}
	return nil
}
