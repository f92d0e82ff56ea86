package order

import (
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// Maker makes the orders of one leader.
type Maker struct {
	Epoch store.Epoch
	// Grace is how long a process has between SIGTERM and SIGKILL.
	Grace time.Duration
	// Address returns by which address other nodes reach one; empty: it is not known.
	Address func(node string) string
	// Networks has the addresses of all networks of launches.
	Networks netip.Prefix
	// Images returns where other nodes fetch images from one, and its key; empty: nowhere.
	Images func(node string) (address, key string)
}

// Order returns what an agent gets: all that it needs to run one replica, so that it need not know
// the launch.
func (m Maker) Order(l *record.Launch, o launch.Order) *api.Order {
	spec := &l.State.Spec
	r := l.State.Replicas[o.Replica]
	job := &spec.Jobs[r.Job]
	out := &api.Order{
		Attempt: &api.Attempt{Launch: l.ID, Replica: uint32(o.Replica), Attempt: uint32(o.Attempt)},
		Do:      string(o.Do), Epoch: uint64(m.Epoch), Owner: l.Owner, Gpus: messages.Numbers(o.GPUs),
		Git: spec.Source.Git, Branch: spec.Source.Branch, Commit: spec.Source.Commit,
		GraceMs: uint64(m.Grace.Milliseconds()), Generation: uint32(o.Generation), Name: l.Label(),
	}
	if l.Code.Hash != "" {
		out.Code = codeRef(l.Code)
	}
	out.Checkpoint, out.Save, out.Asked = checkpointOrder(spec), uint32(l.Saves), uint32(l.Asked)
	out.Network = m.network(l, o.Replica)
	out.Together = spec.SavedTogether() > 0
	if needed := l.Image(l.State.Cut[o.Replica]); needed != nil && needed.Attempt == o.Attempt {
		out.Needed = needed.Generation
	}
	if o.Do != launch.Run {
		return out
	}
	if image := l.Image(o.Image); image != nil {
		out.Image, out.ImageKey, out.ImageFrom = ImageView(image), image.Key, m.imageFrom(image, o.Node)
	}
	at := m.where(l, o)
	for i := range job.Processes {
		out.Processes = append(out.Processes, processOrder(spec, r, i, at))
	}
	return out
}

// codeRef converts the name of packed code for a message.
func codeRef(c record.Code) *api.CodeRef {
	hash, err := hex.DecodeString(c.Hash)
	if err != nil {
		return nil // never: a controller has encoded it
	}
	return &api.CodeRef{Hash: hash, Bytes: c.Bytes}
}

// where returns what the processes of a replica have to know of their place.
func (m Maker) where(l *record.Launch, o launch.Order) launch.Where {
	r := &l.State.Replicas[o.Replica]
	w := launch.Where{Device: deviceOf(l), ID: l.ID, Generation: o.Generation, Node: o.Node, GPUs: o.GPUs}
	for i := range l.State.Replicas {
		other := &l.State.Replicas[i]
		if other.Job != r.Job || !other.Live {
			continue
		}
		if w.World++; w.World == 1 {
			w.MainPort = other.Port
			w.MainAddress = m.addressOf(l, i)
		}
		if i == o.Replica {
			w.Rank = w.World - 1
		}
	}
	return w
}

// Members returns the replicas of a launch that have places.
func (m Maker) Members(l *record.Launch) *api.MembersReply {
	reply := &api.MembersReply{Generation: uint32(l.State.Generation)}
	ranks := make([]uint32, len(l.State.Spec.Jobs))
	for i := range l.State.Replicas {
		r := &l.State.Replicas[i]
		if !r.Live {
			continue
		}
		reply.Members = append(reply.Members, &api.Member{
			Job: l.State.Spec.Jobs[r.Job].Name, Replica: uint32(r.Index), Rank: ranks[r.Job], Attempt: uint32(r.Attempt),
			Node: r.Node, Address: m.addressOf(l, i), Port: uint32(r.Port),
		})
		ranks[r.Job]++
	}
	return reply
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
	out.Gpus = messages.Numbers(at.GPUs[first : first+count])
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
