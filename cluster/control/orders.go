package control

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// order returns what an agent gets: all that it needs to run one replica, so that it need not know
// the launch.
func (l *Leader) order(e *entry, o launch.Order) *api.Order {
	spec := &e.State.Spec
	r := e.State.Replicas[o.Replica]
	job := &spec.Jobs[r.Job]
	out := &api.Order{
		Attempt: &api.Attempt{Launch: e.ID, Replica: uint32(o.Replica), Attempt: uint32(o.Attempt)},
		Do:      string(o.Do), Epoch: uint64(l.Epoch()), Owner: e.Owner, Gpus: numbers(o.GPUs),
		Git: spec.Source.Git, Branch: spec.Source.Branch, Commit: spec.Source.Commit,
		GraceMs: uint64(l.settings.Times.Grace.Milliseconds()), Generation: uint32(o.Generation), Name: e.Label(),
	}
	if e.Code.Hash != "" {
		out.Code = codeRef(e.Code)
	}
	if o.Do != launch.Run {
		return out
	}
	at := l.where(e, o)
	for i := range job.Processes {
		out.Processes = append(out.Processes, processOrder(spec, r, i, at))
	}
	return out
}

// where returns what the processes of a replica have to know of their place.
func (l *Leader) where(e *entry, o launch.Order) launch.Where {
	r := &e.State.Replicas[o.Replica]
	w := launch.Where{ID: e.ID, Generation: o.Generation, Node: o.Node, GPUs: o.GPUs}
	for i := range e.State.Replicas {
		other := &e.State.Replicas[i]
		if other.Job != r.Job || !other.Live {
			continue
		}
		if w.World++; w.World == 1 {
			w.MainPort = other.Port
			if n := l.nodes[other.Node]; n != nil {
				w.MainAddress = n.Address
			}
		}
		if i == o.Replica {
			w.Rank = w.World - 1
		}
	}
	return w
}

// processOrder returns what one process of a replica gets.
func processOrder(spec *launch.Spec, r launch.Replica, process int, at launch.Where) *api.ProcessOrder {
	processes := spec.Jobs[r.Job].Processes
	p := &processes[process]
	at.Ports = portsOf(processes, process, r.Port)
	out := &api.ProcessOrder{
		Directory: p.Directory, Millicpus: uint64(p.Resources.CPUs), MemoryBytes: uint64(p.Resources.Memory),
	}
	first, count := launch.GPUsOf(processes, process)
	out.Gpus = numbers(at.GPUs[first : first+count])
	for _, word := range p.Command {
		out.Command = append(out.Command, []byte(word))
	}
	for _, variable := range launch.Strings(spec.Environment(r, process, at)) {
		out.Environment = append(out.Environment, []byte(variable))
	}
	return out
}

// portsOf returns the ports of a process by their names. The first port of a replica is that of the
// rendezvous; those of its processes follow in their order.
func portsOf(processes []launch.Process, process, first int) map[string]int {
	next := first + 1
	for _, p := range processes[:process] {
		next += len(p.Ports)
	}
	ports := map[string]int{}
	for i, name := range processes[process].Ports {
		ports[name] = next + i
	}
	return ports
}

// numbers converts numbers for a message.
func numbers(list []int) (out []uint32) {
	for _, each := range list {
		out = append(out, uint32(each))
	}
	return out
}

// ordersFor returns all that shall be on a node, by what is in the store.
func (l *Leader) ordersFor(n *node) (orders []*api.Order) {
	for _, e := range n.entries() {
		for _, o := range e.told {
			if o.Node == n.Name {
				orders = append(orders, l.order(e, o))
			}
		}
	}
	slices.SortFunc(orders, func(a, b *api.Order) int { return compareAttempts(a.GetAttempt(), b.GetAttempt()) })
	return orders
}

// compareAttempts orders attempts by launch and replica.
func compareAttempts(a, b *api.Attempt) int {
	if a.GetLaunch() != b.GetLaunch() {
		if a.GetLaunch() < b.GetLaunch() {
			return -1
		}
		return 1
	}
	return int(a.GetReplica()) - int(b.GetReplica())
}

// release tells an agent that an attempt is no longer wanted: what is left of it may go.
func (l *Leader) release(n *node, launchID string, replica, attempt int) {
	if n.session == nil {
		return
	}
	n.session.send(&api.ToAgent{Message: &api.ToAgent_Orders{Orders: &api.Orders{
		Epoch:    uint64(l.Epoch()),
		Released: []*api.Attempt{{Launch: launchID, Replica: uint32(replica), Attempt: uint32(attempt)}},
	}}})
}
