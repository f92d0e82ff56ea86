package replay

import (
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// Restarts is the input of a replay in which each failure is answered by a restart from the last
// checkpoint. New nodes are used after the next one.
type Restarts struct {
	Run
	Restart    time.Duration // instead of the pause
	Checkpoint time.Duration // how long training waits for one
	Every      int           // steps between two checkpoints
}

// restartState is the state of a run with restarts.
type restartState struct {
	*Restarts
	nodes, present int
	now            time.Duration // from here on nothing is accounted for
	ready          time.Duration // when the last restart ends
	saved          int           // steps in the last checkpoint
	since          time.Duration // how long the steps since took
	report         Report
}

// Replay runs a trace.
func (r *Restarts) Replay() (*Report, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Restart < 0 || r.Checkpoint < 0 || r.Every < 1 || r.Restart > maxTime || r.Checkpoint > maxTime {
		return nil, &pipeline.InputError{
			Problem: fmt.Sprintf("a restart of %v, a checkpoint of %v every %d steps", r.Restart, r.Checkpoint, r.Every),
			Want:    "times of 0 to 36 years, and 1 step or more",
		}
	}
	first := r.Ready + r.Restart
	s := &restartState{Restarts: r, nodes: r.Throughput.Largest(), present: r.Throughput.Largest(), now: first, ready: first}
	s.report.First, s.report.Last = first, first
	for i, e := range r.Trace {
		s.until(e.At)
		if i == len(r.Trace)-1 {
			break
		}
		s.present += change(e)
		if err := r.Throughput.check(e.At, s.present); err != nil {
			return nil, err
		}
		if !e.Up || s.Throughput[s.nodes] == 0 {
			s.restart(e.At)
		}
	}
	end := r.Trace[len(r.Trace)-1].At
	s.report.End = end
	s.report.Unfinished = max(0, end-s.now)
	if took := s.report.Last - first; took > 0 {
		s.report.SamplesPerSecond = float64(int64(s.report.Steps)*r.SamplesPerStep) / took.Seconds()
	}
	return &s.report, nil
}

// until makes the steps and checkpoints that end before a time.
func (s *restartState) until(at time.Duration) {
	if paused := min(at, s.ready) - s.now; paused > 0 {
		s.report.Paused += paused
		s.now += paused
	}
	samples := s.Throughput[s.nodes]
	if samples == 0 && at > s.now {
		s.report.Idle += at - s.now
		s.now = at
	}
	if s.now < s.ready || samples == 0 {
		return
	}
	for step := s.stepOf(samples); ; {
		due := s.report.Steps-s.saved >= s.Every
		switch {
		case due && s.now+s.Checkpoint < at:
			s.now += s.Checkpoint
			s.report.Checkpoints += s.Checkpoint
			s.saved, s.since = s.report.Steps, 0
		case !due && s.now+step < at:
			s.now += step
			s.since += step
			s.report.Steps++
			s.report.Useful += step
			s.report.Last = s.now
		default:
			return // it is cut off
		}
	}
}

// restart loses what was computed since the last checkpoint.
func (s *restartState) restart(at time.Duration) {
	s.nodes, s.ready = s.present, at+s.Restart
	s.report.LostSteps += s.report.Steps - s.saved
	s.report.Steps = s.saved
	s.report.Useful -= s.since
	s.report.Lost += s.since + max(0, at-s.now)
	s.since, s.now = 0, max(s.now, at)
}
