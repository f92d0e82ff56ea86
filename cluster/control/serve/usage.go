package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/cluster/record"
)

// usageTime is how long a node may take to say what its processes use.
const usageTime = 3 * time.Second

// Usage says what processes use now. All their nodes are asked at once.
func (s *launches) Usage(ctx context.Context, request *api.UsageRequest) (*api.UsageReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	what, err := parseSelection(request.GetWhat())
	if err != nil {
		return nil, err
	}
	u := &usage{nodes: map[string][]*api.Attempt{}, rows: map[attemptKey][]*api.ProcessUsage{}}
	if err := leader.Ask(ctx, func(t control.Turn) error {
		if request.GetWhat() != "" {
			l, err := visible(t, caller, what.id)
			if err != nil {
				return err
			}
			return u.add(l, what)
		}
		for l := range t.Launches() {
			if maySee(caller, l.Owner) && l.State.Phase != launch.Ended {
				if err := u.add(l, what); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	u.askAll(ctx, leader)
	return u.reply(), nil
}

// attemptKey names an attempt in a map.
type attemptKey struct {
	launch           string
	replica, attempt uint32
}

func keyOf(a *api.Attempt) attemptKey {
	return attemptKey{a.GetLaunch(), a.GetReplica(), a.GetAttempt()}
}

// usage collects what nodes say.
type usage struct {
	nodes   map[string][]*api.Attempt
	rows    map[attemptKey][]*api.ProcessUsage
	notices []string
}

// add adds rows for the processes of a launch that are on nodes.
func (u *usage) add(l *record.Launch, what selection) error {
	selected, err := sources(l, what, 0)
	if err != nil {
		return err
	}
	for _, at := range selected {
		if !at.live {
			continue
		}
		r := &l.State.Replicas[at.replica]
		attempt := &api.Attempt{Launch: l.ID, Replica: uint32(at.replica), Attempt: uint32(at.attempt)}
		u.nodes[at.node] = append(u.nodes[at.node], attempt)
		processes := l.State.Spec.Jobs[r.Job].Processes
		for i := range processes {
			row := &api.ProcessUsage{
				Launch: l.ID, Number: uint32(l.Number), Name: l.State.Spec.Name, Owner: l.Owner, Job: at.job,
				Replica: uint32(at.index), Process: uint32(i), Node: at.node, Phase: replicaPhase(&l.State, r),
				Restarts: uint32(at.attempt - 1), Attempt: uint32(at.attempt),
			}
			if first, count := launch.GPUsOf(processes, i); first+count <= len(r.GPUs) {
				row.Gpus = messages.Numbers(r.GPUs[first : first+count])
			}
			if what.process >= 0 && what.process != i {
				row = nil // not asked for
			}
			u.rows[keyOf(attempt)] = append(u.rows[keyOf(attempt)], row)
		}
	}
	return nil
}

// said is what a node says of an attempt, or, at its end, why there is no more.
type said struct {
	node  string
	usage *api.AttemptUsage // nil: the end
	err   error
}

// askAll asks all nodes, for a limited time.
func (u *usage) askAll(ctx context.Context, leader *control.Leader) {
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	all := make(chan said)
	for node, attempts := range u.nodes {
		go func() {
			ask := &api.Ask{Usage: &api.UsageQuestion{Attempts: attempts}}
			err := askNode(ctx, leader, node, ask, func(part *api.AnswerPart) {
				for _, each := range part.GetUsage() {
					all <- said{node: node, usage: each}
				}
			})
			all <- said{node: node, err: err}
		}()
	}
	for open := len(u.nodes); open > 0; {
		switch got := <-all; {
		case got.usage != nil:
			u.merge(got)
		case got.err != nil:
			u.notices = append(u.notices, fmt.Sprintf("node %s: %s", got.node, nodeProblem(got.err, "what its processes use")))
			open--
		default:
			open--
		}
	}
}

// nodeProblem says why a node has not answered, and what is missing therefore.
func nodeProblem(err error, missing string) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, session.ErrNodeSilent) {
		return "it does not answer now, so " + missing + " is missing"
	}
	return err.Error()
}

// askNode asks one node, and hands on what it says.
func askNode(
	ctx context.Context, leader *control.Leader, node string, ask *api.Ask, take func(*api.AnswerPart),
) error {
	question, err := leader.AskNode(ctx, node, ask)
	if err != nil {
		return err
	}
	for {
		select {
		case part := <-question.Parts():
			err = errors.Join(err, takePart(part, take))
		case <-question.Done():
			for waits := true; waits; {
				select {
				case part := <-question.Parts():
					err = errors.Join(err, takePart(part, take))
				default:
					waits = false
				}
			}
			return errors.Join(err, question.Err())
		}
	}
}

// takePart hands on a part. The error is what the node says.
func takePart(part *api.AnswerPart, take func(*api.AnswerPart)) error {
	take(part)
	if part.GetError() != "" {
		return errors.New(part.GetError())
	}
	return nil
}

// merge puts what a node has said of an attempt into its rows, if that is there.
func (u *usage) merge(got said) {
	for i, row := range u.rows[keyOf(got.usage.GetAttempt())] {
		if row == nil || row.GetNode() != got.node || i >= len(got.usage.GetProcesses()) {
			continue
		}
		used := got.usage.GetProcesses()[i]
		row.CpuNs, row.AtNs, row.MemoryBytes = used.CpuNs, used.AtNs, used.MemoryBytes
		row.GpuBytes, row.GpuBusyPercent = used.GpuBytes, used.GpuBusyPercent
	}
}

// reply returns the rows in the order of launches and processes.
func (u *usage) reply() *api.UsageReply {
	rows := slices.DeleteFunc(slices.Concat(slices.Collect(maps.Values(u.rows))...), func(row *api.ProcessUsage) bool {
		return row == nil
	})
	slices.SortFunc(rows, func(a, b *api.ProcessUsage) int {
		return cmp.Or(cmp.Compare(a.GetNumber(), b.GetNumber()), cmp.Compare(a.GetJob(), b.GetJob()),
			cmp.Compare(a.GetReplica(), b.GetReplica()), cmp.Compare(a.GetProcess(), b.GetProcess()))
	})
	slices.Sort(u.notices)
	return &api.UsageReply{Processes: rows, Notices: u.notices}
}
