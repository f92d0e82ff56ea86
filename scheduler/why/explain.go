package why

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// ErrNoJob is returned for a job that the engine does not have: it has ended, was refused, or has
// not arrived.
var ErrNoJob = errors.New("no such job waits or runs")

// speaker is an order that says why a job ranks where it does.
type speaker interface {
	Words(v scheduler.View, j *scheduler.Job) string
}

// limiter is an admission policy that says why the next job is not admitted.
type limiter interface {
	Limit(v scheduler.View, first *scheduler.Job) string
}

// Explain returns why a job waits. It is called where the engine is used, as in live.Loop.Do.
func Explain(e *scheduler.Engine, id cluster.JobID) (*Answer, error) {
	j := e.Job(id)
	if j == nil {
		return nil, fmt.Errorf("explain job %d: %w", id, ErrNoJob)
	}
	a := &Answer{Job: id, Phase: j.Phase(), Now: e.Now(), Since: e.Now() - j.Waited(e.Now()), Wants: wants(j)}
	a.Round = e.Policies().Round
	a.Supply = supply(e, j)
	switch j.Phase() {
	case scheduler.Running:
		a.Since, a.On = j.Since(), slices.Clone(j.Placement())
		return a, nil
	case scheduler.Held:
		a.Held = held(e, j)
		return a, nil
	default:
	}
	a.Cap = capOf(e, j)
	a.Before = before(e, j)
	a.Preempts, a.Preemptible = preempts(e), e.PreemptibleFor(j)
	a.Promised, a.HasPromise = e.Promised(j)
	return a, nil
}

// preempts reports whether waiting jobs may preempt running ones.
func preempts(e *scheduler.Engine) bool {
	p, ok := e.Policies().Order.(scheduler.Preemptive)
	return ok && p.Preempts() && e.Policies().Preempt != nil
}

// wants returns what a job asks for.
func wants(j *scheduler.Job) Wants {
	w := Wants{GPUs: j.GPUs(), Share: j.Share(), GPUType: j.OwnGPUType(), GPUMemoryBytes: j.GPUMemoryBytes()}
	w.Fewest, w.Most = j.Bounds()
	return w
}

// held returns why a job is not admitted.
func held(e *scheduler.Engine, j *scheduler.Job) *Held {
	h := &Held{}
	tenants, separate := e.Policies().Admit.(scheduler.TenantAdmitter)
	first := j
	for _, other := range e.Held() {
		if separate && tenants.Tenant(other) != tenants.Tenant(j) {
			continue
		}
		if other == j {
			break
		}
		if h.Before == 0 {
			first = other
		}
		h.Before++
	}
	if l, ok := e.Policies().Admit.(limiter); ok {
		h.Limit = l.Limit(e, first)
	}
	return h
}

// capOf returns the cap that a job would exceed, the nearest one of its user and those above.
func capOf(e *scheduler.Engine, j *scheduler.Job) *Cap {
	need := float64(j.GPUs()*j.Share()) / cluster.WholeGPU
	for user := j.User(); ; user = user[:strings.LastIndexByte(user, '/')] {
		if u := e.User(user); u.Cap != scheduler.Uncapped && u.GPUs+need > float64(u.Cap) {
			return &Cap{User: user, Most: u.Cap, Used: u.GPUs}
		}
		if strings.LastIndexByte(user, '/') <= 0 {
			return nil
		}
	}
}

// supply counts the GPUs that suit a job.
func supply(e *scheduler.Engine, j *scheduler.Job) Supply {
	var s Supply
	nodes, free := e.Nodes(), e.Free()
	for i := range nodes {
		n := &nodes[i]
		if !free.Suits(j, n.ID) {
			continue
		}
		s.Total += n.GPUs
		switch free.State(n.ID) {
		case scheduler.NodeOpen:
			s.onOpen(free, j, n)
		case scheduler.NodeCordoned:
			s.Cordoned += n.GPUs
		case scheduler.NodeDraining:
			s.Draining += n.GPUs
		case scheduler.NodeLost:
			s.Lost += n.GPUs
		}
	}
	slices.SortStableFunc(s.Nodes, func(a, b NodeFree) int { return cmp.Compare(b.Free, a.Free) })
	s.Nodes = s.Nodes[:min(len(s.Nodes), MaxNodes)]
	return s
}

// onOpen counts the GPUs of an open node.
func (s *Supply) onOpen(free *scheduler.Free, j *scheduler.Job, n *cluster.Node) {
	usable := free.On(n.ID)
	if j.Share() < cluster.WholeGPU {
		usable = 0
		for i := range int32(n.GPUs) {
			if free.Share(cluster.GPU{Node: n.ID, Index: i}) >= j.Share() {
				usable++
			}
		}
	}
	foreign := bits.OnesCount64(free.Occupied(n.ID))
	s.Free += usable
	s.Foreign += foreign
	s.Busy += n.GPUs - usable - foreign
	s.Largest = max(s.Largest, usable)
	if usable > 0 {
		s.Nodes = append(s.Nodes, NodeFree{n.ID, n.Name, usable})
	}
}

// before returns the waiting jobs before one.
func before(e *scheduler.Engine, j *scheduler.Job) (b Before) {
	order, _ := e.Policies().Order.(speaker)
	say := func(j *scheduler.Job) string {
		if order == nil {
			return ""
		}
		return order.Words(e, j)
	}
	for other := range e.Waiting() {
		if other == j {
			break
		}
		b.Jobs++
		b.GPUs += other.GPUs()
		if len(b.First) < MaxRivals {
			b.First = append(b.First, Rival{
				Job: other.ID(), Name: other.Name(), User: other.User(), GPUs: other.GPUs(), Words: say(other),
			})
		}
	}
	b.Words = say(j)
	return b
}
