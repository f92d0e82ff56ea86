package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// checkPlacement validates a policy's placement for n GPUs of a job and returns a sorted copy.
func (e *Engine) checkPlacement(j *Job, on cluster.Placement, n int) (cluster.Placement, error) {
	if len(on) != n || n <= 0 {
		return nil, &PlanError{Job: j.ID(), Err: ErrGang}
	}
	if !j.account.allows(j, n) {
		return nil, &PlanError{Job: j.ID(), Err: ErrQuota}
	}
	on = sortedCopy(on)
	for i, gpu := range on {
		err := e.free.checkGPU(j, gpu)
		if i > 0 && on[i-1] == gpu {
			err = ErrTwice
		}
		if err != nil {
			return nil, &PlanError{Job: j.ID(), GPU: gpu, Err: err}
		}
	}
	return on, nil
}

// byNumber compares GPUs by node and index.
func byNumber(a, b cluster.GPU) int {
	if a.Node != b.Node {
		return int(a.Node) - int(b.Node)
	}
	return int(a.Index) - int(b.Index)
}

// sortedCopy returns a placement by number.
func sortedCopy(on cluster.Placement) cluster.Placement {
	on = slices.Clone(on)
	if !slices.IsSortedFunc(on, byNumber) {
		slices.SortFunc(on, byNumber)
	}
	return on
}

// checkGPU returns why a job cannot have a GPU, or nil.
func (f *Free) checkGPU(j *Job, gpu cluster.GPU) error {
	switch {
	case !f.exists(gpu):
		return ErrNoSuchGPU
	case f.closed[gpu.Node]:
		return ErrClosed
	case !f.Suits(j, gpu.Node):
		return ErrUnsuited
	case f.Share(gpu) < j.facts.Share:
		return ErrTaken
	}
	return nil
}

// exists reports whether there is such a GPU.
func (f *Free) exists(gpu cluster.GPU) bool {
	return gpu.Node >= 0 && int(gpu.Node) < len(f.nodes) && gpu.Index >= 0 && int(gpu.Index) < f.nodes[gpu.Node].GPUs
}

// checkHeld validates the GPUs that a job has already, and returns a sorted copy. What counts is
// that they exist and that no other job has them: caps, closed nodes and the like are for plans.
func (f *Free) checkHeld(j *Job, on cluster.Placement) (cluster.Placement, error) {
	if _, most := j.Bounds(); len(on) == 0 || len(on) > max(most, j.gpus) {
		return nil, &PlanError{Job: j.ID(), Err: ErrGang}
	}
	on = sortedCopy(on)
	for i, gpu := range on {
		err := error(nil)
		switch {
		case !f.exists(gpu):
			err = ErrNoSuchGPU
		case i > 0 && on[i-1] == gpu:
			err = ErrTwice
		case f.left(gpu) < j.facts.Share:
			err = ErrTaken
		}
		if err != nil {
			return nil, &PlanError{Job: j.ID(), GPU: gpu, Err: err}
		}
	}
	return on, nil
}

// validJob reports whether a job's description is consistent.
func validJob(f *cluster.Job) bool {
	switch {
	case f.GPUs <= 0, f.Share < 0, f.Share > wholeGPU, f.Share%wholeGPU != 0 && f.GPUs > 1:
		return false
	case f.MaxGPUs != 0 && (f.MinGPUs < 1 || f.MinGPUs > f.MaxGPUs), f.MaxGPUs == 0 && f.MinGPUs != 0:
		return false
	}
	return f.Submit >= 0 && f.Estimate >= 0 && f.GPUMemoryBytes >= 0
}

// Errors in placements.
var (
	ErrTwice     = errors.New("a GPU is listed twice")
	ErrTaken     = errors.New("the GPU is not free")
	ErrGang      = errors.New("not the number of GPUs that the job needs")
	ErrUnsuited  = errors.New("the job cannot run on a GPU of this type or memory")
	ErrQuota     = errors.New("its user's cap does not allow so many GPUs")
	ErrClosed    = errors.New("the node is closed")
	ErrNoSuchGPU = errors.New("no such GPU")
)

// Errors in events.
var (
	ErrUnknownJob = errors.New("no such job")
	ErrDuplicate  = errors.New("the job's number is already in use")
	ErrTooLarge   = errors.New("the cluster does not have enough suitable GPUs")
	ErrBadFacts   = errors.New("the job's description is inconsistent")
	ErrBadNode    = errors.New("no such node, or the event does not apply to its state")
	ErrInUse      = errors.New("the node, as it is now, lacks a GPU that a job has")
	ErrNotStopped = errors.New("this run of the job was not stopped, or the job has GPUs again")
	ErrBackwards  = errors.New("time went backwards")
)

// PlanError is why a placement was refused.
type PlanError struct {
	Job cluster.JobID
	GPU cluster.GPU // if it concerns one GPU
	Err error
}

func (e *PlanError) Error() string {
	return fmt.Sprintf("job %d on node %d, GPU %d: %v", e.Job, e.GPU.Node, e.GPU.Index, e.Err)
}

func (e *PlanError) Unwrap() error { return e.Err }

// PolicyError is an invalid answer of a policy. The engine continues as if the policy had refused.
type PolicyError struct {
	Policy string // order, admit, place, ...
	At     time.Duration
	Err    error
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("policy %s at %v: %v", e.Policy, e.At, e.Err)
}

func (e *PolicyError) Unwrap() error { return e.Err }

// EventError is an event that cannot have happened. The engine ignores it.
type EventError struct {
	Event Event
	At    int // its index among the events of the step
	Err   error
}

func (e *EventError) Error() string {
	ev := &e.Event
	switch {
	case ev.Facts != nil:
		return fmt.Sprintf("%v of job %d: %v", ev.Kind, ev.Facts.ID, e.Err)
	case ev.State != nil:
		return fmt.Sprintf("%v of job %d: %v", ev.Kind, ev.State.ID, e.Err)
	}
	return fmt.Sprintf("%v (job %d, node %d): %v", ev.Kind, ev.Job, ev.Node, e.Err)
}

func (e *EventError) Unwrap() error { return e.Err }

// String returns the kind's name.
func (k Kind) String() string {
	names := [...]string{
		"submitted", "working", "finished", "failed", "withdrawn", "node down", "node up", "drained",
		"cordoned", "occupied", "vacated", "adopted", "kept", "shrunk", "refused",
	}
	if int(k) >= len(names) {
		return fmt.Sprintf("event %d", uint8(k))
	}
	return names[k]
}

// reportPolicy records a policy's invalid answer.
func (e *Engine) reportPolicy(policy string, err error) {
	e.errs = append(e.errs, &PolicyError{Policy: policy, At: e.now, Err: err})
}

// panicError returns the error of a policy that panics.
func panicError(reason any) error { return fmt.Errorf("panic: %v", reason) }

// callPolicy calls a policy. If the policy panics, the answer is the zero value.
func callPolicy[T any](e *Engine, policy string, call func() T) (answer T) {
	defer func() {
		if r := recover(); r != nil {
			e.reportPolicy(policy, panicError(r))
			var no T
			answer = no
		}
	}()
	return call()
}
