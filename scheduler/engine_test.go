package scheduler

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

const s = time.Second

// task is a job with an exact estimate.
func task(id cluster.JobID, submit, length time.Duration, gpus int) cluster.Job {
	return cluster.Job{ID: id, Submit: submit, Length: length, Estimate: length, GPUs: gpus}
}

// owned is a user's job of 10 s.
func owned(user string, id cluster.JobID, gpus int) cluster.Job {
	return cluster.Job{ID: id, Length: 10 * s, GPUs: gpus, User: user}
}

func TestWalks(t *testing.T) {
	tests := []struct {
		name  string
		nodes []cluster.Node
		p     Policies
		jobs  []cluster.Job
		ends  []time.Duration // by job's number, from 0
		stops int
	}{
		{
			"one after the other", machines(1, 1),
			Policies{Order: byNothing{}},
			[]cluster.Job{task(0, 0, 10*s, 1), task(1, 0, 5*s, 1), task(2, 1*s, 1, 1)},
			[]time.Duration{10 * s, 15 * s, 15*s + 1},
			0,
		},
		{
			"strict: the first blocks", machines(1, 4),
			Policies{Order: byNothing{}},
			[]cluster.Job{task(0, 0, 10*s, 2), task(1, 1*s, 10*s, 4), task(2, 2*s, 1*s, 1)},
			[]time.Duration{10 * s, 20 * s, 21 * s},
			0,
		},
		{
			"fill: every job that fits starts", machines(1, 4),
			Policies{Order: byNothing{}, Walk: Fill},
			[]cluster.Job{task(0, 0, 10*s, 2), task(1, 1*s, 10*s, 4), task(2, 2*s, 1*s, 1)},
			[]time.Duration{10 * s, 20 * s, 3 * s},
			0,
		},
		{
			"priority takes GPUs", machines(1, 2),
			Policies{Order: byPriority{}, Preempt: enough{}},
			[]cluster.Job{task(0, 0, 10*s, 2), {ID: 1, Submit: 4 * s, Length: 3 * s, GPUs: 1, Priority: 1}},
			[]time.Duration{13 * s, 7 * s},
			1,
		},
		{
			"the shortest goes first", machines(1, 1),
			Policies{Order: byRemaining{}, Preempt: enough{}},
			[]cluster.Job{task(0, 0, 10*s, 1), task(1, 2*s, 3*s, 1), task(2, 3*s, 9*s, 1)},
			[]time.Duration{13 * s, 5 * s, 22 * s},
			1,
		},
		{
			"the least served goes first, a quantum at a time", machines(1, 1),
			Policies{Order: byService{}, Preempt: enough{}, Quantum: 4 * s},
			[]cluster.Job{task(0, 0, 8*s, 1), task(1, 0, 8*s, 1)},
			[]time.Duration{12 * s, 16 * s},
			2,
		},
		{
			"a quantum is working time: loading does not count", machines(1, 1),
			Policies{Order: byService{}, Preempt: enough{}, Quantum: 4 * s, Costs: flat{load: 5 * s, save: 2 * s}},
			[]cluster.Job{task(0, 0, 8*s, 1), task(1, 0, 8*s, 1)},
			[]time.Duration{21 * s, 30 * s},
			2,
		},
		{
			"equals alternate every minute without a quantum", machines(1, 1),
			Policies{Order: byService{}, Preempt: enough{}},
			[]cluster.Job{task(0, 0, 80*s, 1), task(1, 0, 30*s, 1)},
			[]time.Duration{110 * s, 90 * s},
			1,
		},
		{
			"a user's cap does not block others", machines(1, 4),
			Policies{Order: byNothing{}, Caps: map[string]int{"a": 2}},
			[]cluster.Job{owned("a/x", 0, 2), owned("a/y", 1, 1), owned("b", 2, 2), owned("a", 3, 1)},
			[]time.Duration{10 * s, 20 * s, 10 * s, 20 * s},
			0,
		},
		{
			"decisions in rounds", machines(1, 1),
			Policies{Order: byNothing{}, Round: 10 * s},
			[]cluster.Job{task(0, 1*s, 12*s, 1), task(1, 2*s, 1*s, 1)},
			[]time.Duration{22 * s, 31 * s},
			0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.p.Place = anywhere{}
			v := prepare(t, tt.nodes, tt.p, tt.jobs)
			v.after = func(time.Duration, Plan) { audit(t, v.e) }
			v.run()
			for id, want := range tt.ends {
				if got := v.finished[cluster.JobID(id)]; got != want {
					t.Errorf("job %d ended at %v, want %v", id, got, want)
				}
			}
			if v.stops != tt.stops {
				t.Errorf("%d stops, want %d", v.stops, tt.stops)
			}
		})
	}
}

func TestRefusedEvents(t *testing.T) {
	e, err := New(machines(2, 2), Policies{Order: byNothing{}, Place: anywhere{}})
	if err != nil {
		t.Fatal(err)
	}
	fine := task(1, 0, s, 1)
	if _, err := e.Step(0, []Event{{Kind: Submitted, Facts: &fine}}); err != nil {
		t.Fatal(err)
	}
	big, none, odd, negative := task(2, 0, s, 5), task(3, 0, s, 0), task(4, 0, s, 2), task(5, -s, s, 1)
	odd.Share = 500
	foreign := task(6, 0, s, 1)
	foreign.GPUType = "B"
	taken := e.Job(1).Placement()
	for _, tt := range []struct {
		ev   Event
		want error
	}{
		{Event{Kind: Submitted, Facts: &fine}, ErrDuplicate},
		{Event{Kind: Submitted}, ErrBadFacts},
		{Event{Kind: Submitted, Facts: &big}, ErrTooLarge},
		{Event{Kind: Submitted, Facts: &foreign}, ErrTooLarge},
		{Event{Kind: Submitted, Facts: &none}, ErrBadFacts},
		{Event{Kind: Submitted, Facts: &odd}, ErrBadFacts},
		{Event{Kind: Submitted, Facts: &negative}, ErrBadFacts},
		{Event{Kind: Finished, Job: 9}, ErrUnknownJob},
		{Event{Kind: NodeDown, Node: 7}, ErrBadNode},
		{Event{Kind: NodeUp, Node: 1}, ErrBadNode},
		{Event{Kind: Cordoned, Node: -1}, ErrBadNode},
		{Event{Kind: Occupied, Node: 2}, ErrBadNode},
		{Event{Kind: Occupied, Node: 1, GPU: 2}, ErrNoSuchGPU},
		{Event{Kind: Vacated, Node: 1, GPU: -1}, ErrNoSuchGPU},
		{Event{Kind: Adopted}, ErrBadFacts},
		{Event{Kind: Adopted, State: &JobState{Job: fine}}, ErrDuplicate},
		{Event{Kind: Adopted, State: &JobState{Job: big, Phase: Running}}, ErrGang},
		{Event{Kind: Adopted, State: &JobState{Job: foreign, Phase: Running, On: taken}}, ErrTaken},
		{Event{Kind: Adopted, State: &JobState{Job: foreign, Phase: Ended}}, ErrBadFacts},
		{Event{Kind: Adopted, State: &JobState{Job: foreign, Phase: Held, On: taken}}, ErrBadFacts},
		{Event{Kind: Adopted, State: &JobState{Job: foreign, Phase: Waiting, WaitingSince: 2 * s}}, ErrBadFacts},
		{Event{Kind: Adopted, State: &JobState{Job: foreign, Phase: Waiting, Service: -1}}, ErrBadFacts},
		{Event{Kind: Adopted, State: &JobState{Job: foreign, Phase: Waiting, LastRun: math.MaxInt}}, ErrBadFacts},
		{Event{Kind: Kept, Job: 1}, ErrNotStopped},
		{Event{Kind: Kept, Job: 9}, ErrUnknownJob},
		{Event{Kind: Shrunk, Job: 1}, ErrGang},
		{Event{Kind: Shrunk, Job: 1, On: cluster.Placement{{Node: 1, Index: 1}}}, ErrGang},
		{Event{Kind: Refused, Job: 9}, ErrUnknownJob},
	} {
		p, err := e.Step(s, []Event{tt.ev})
		var refused *EventError
		if !errors.As(err, &refused) || !errors.Is(err, tt.want) {
			t.Errorf("%v: %v, want %v", tt.ev, err, tt.want)
		}
		if len(p.Starts)+len(p.Stops) > 0 {
			t.Errorf("%v: %v", tt.ev, p)
		}
		audit(t, e)
	}
	if _, err := e.Step(0, nil); !errors.Is(err, ErrBackwards) {
		t.Errorf("time goes backwards: %v", err)
	}
}
