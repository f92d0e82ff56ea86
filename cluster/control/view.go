package control

import (
	"encoding/hex"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// unixMS returns a time as messages have it; 0 if it is unknown.
func unixMS(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// view returns a launch for people.
func (l *Leader) view(e *entry) *api.Launch {
	spec := &e.State.Spec
	v := &api.Launch{
		Id: e.ID, Number: uint32(e.Number), Name: spec.Name, Owner: e.Owner,
		Phase: string(e.State.Phase), Result: string(e.State.Result), Reason: e.State.Reason,
		Generation: uint32(e.State.Generation), Priority: int32(spec.Priority), Description: spec.Description,
		SubmittedUnixMs: unixMS(e.Submitted), StartedUnixMs: unixMS(e.Started), EndedUnixMs: unixMS(e.Ended),
		CheckpointUnixMs: unixMS(e.Saved), WantedGpus: uint32(wantedGPUs(spec)), Status: status(&e.State),
	}
	if e.State.Phase != launch.Ended {
		v.Result = "" // it is not final
	}
	for i := range e.State.Replicas {
		r := l.replicaView(e, i)
		v.Replicas = append(v.Replicas, r)
		v.Gpus += uint32(len(r.GetGpus()))
	}
	return v
}

// replicaView returns a replica for people.
func (l *Leader) replicaView(e *entry, i int) *api.Replica {
	r := &e.State.Replicas[i]
	v := &api.Replica{
		Job: e.State.Spec.Jobs[r.Job].Name, Index: uint32(r.Index), Attempt: uint32(r.Attempt),
		Phase: replicaPhase(&e.State, r), Node: r.Node, Retries: uint32(r.Retries), Exits: exitsView(r.Exits),
	}
	if r.Live {
		v.Gpus = numbers(r.GPUs)
	}
	for k := len(e.Spans) - 1; k >= 0; k-- {
		if s := &e.Spans[k]; s.Replica == i && s.Attempt == r.Attempt {
			v.StartedUnixMs, v.EndedUnixMs = unixMS(s.From), unixMS(s.To)
			break
		}
	}
	return v
}

// replicaPhase returns a word for how far a replica is.
func replicaPhase(s *launch.State, r *launch.Replica) string {
	switch {
	case r.Live && s.Phase == launch.Stopping:
		return "stopping"
	case r.Live && r.Started:
		return "running"
	case r.Live:
		return "starting"
	case r.Done:
		return "done"
	case r.Lost, s.Phase == launch.Ended && failed(r.Exits):
		return "failed"
	case s.Phase == launch.Ended:
		return "stopped"
	}
	return "pending"
}

// failed reports whether a process has failed by itself.
func failed(exits []launch.Exit) bool {
	for _, exit := range exits {
		if !exit.OK() && !exit.Stopped {
			return true
		}
	}
	return false
}

// Exit statuses of a launch as one program, beside those of its processes.
const (
	statusFailed  = 1
	statusStopped = 130 // as of a program that ^C has ended
	signalBase    = 128
)

// status returns what the exit status of a launch would be if it were one program: that of the
// first process that has failed.
func status(s *launch.State) int32 {
	if s.Phase != launch.Ended || s.Result == launch.Completed {
		return 0
	}
	for i := range s.Replicas {
		for _, exit := range s.Replicas[i].Exits {
			switch {
			case exit.OK() || exit.Stopped:
			case exit.Signal != 0:
				return signalBase + int32(exit.Signal)
			case exit.Code != 0:
				return int32(exit.Code)
			}
		}
	}
	if s.Result == launch.Stopped {
		return statusStopped
	}
	return statusFailed
}

// wantedGPUs returns how many GPUs a launch asks for at least.
func wantedGPUs(spec *launch.Spec) (sum int) {
	for _, job := range spec.Jobs {
		for _, process := range job.Processes {
			sum += process.Resources.GPUs * job.Replicas.Min
		}
	}
	return sum
}

// exitsView converts exits for a message.
func exitsView(exits []launch.Exit) (out []*api.Exit) {
	for _, e := range exits {
		out = append(out, &api.Exit{
			Process: uint32(e.Process), Code: int32(e.Code), Signal: int32(e.Signal), OutOfMemory: e.OutOfMemory,
			Error: e.Error, Stopped: e.Stopped,
		})
	}
	return out
}

// exitsOf converts exits of a message.
func exitsOf(exits []*api.Exit) (out []launch.Exit) {
	for _, e := range exits {
		out = append(out, launch.Exit{
			Process: int(e.GetProcess()), Code: int(e.GetCode()), Signal: int(e.GetSignal()),
			OutOfMemory: e.GetOutOfMemory(), Error: e.GetError(), Stopped: e.GetStopped(),
		})
	}
	return out
}

// inventoryOf converts an inventory of a message.
func inventoryOf(said *api.Inventory) record.Inventory {
	i := record.Inventory{
		CPUs: int(said.GetCpus()), MemoryBytes: said.GetMemoryBytes(), OS: said.GetOs(), Kernel: said.GetKernel(),
		Phosd: said.GetPhosdVersion(), PhosdError: said.GetPhosdError(),
	}
	for _, g := range said.GetGpus() {
		i.GPUs = append(i.GPUs, record.GPU{
			Index: int(g.GetIndex()), Name: g.GetName(), UUID: g.GetUuid(), MemoryBytes: g.GetMemoryBytes(),
			Software: g.GetSoftware(), Foreign: int(g.GetForeign()), Bad: g.GetBad(),
		})
	}
	return i
}

// nodeView returns a node for people.
func (l *Leader) nodeView(n *node) *api.Node {
	v := &api.Node{
		Name: n.Name, State: string(l.state(n)), Cordoned: n.Cordoned, Draining: n.Draining,
		Cluster: n.Cluster, Shard: n.Shard, Labels: n.Labels, Address: n.Address, Version: n.Version, BootId: n.BootID,
		Inventory: &api.Inventory{
			Cpus: uint32(n.Inventory.CPUs), MemoryBytes: n.Inventory.MemoryBytes, Os: n.Inventory.OS,
			Kernel: n.Inventory.Kernel, PhosdVersion: n.Inventory.Phosd, PhosdError: n.Inventory.PhosdError,
		},
	}
	v.SeenUnixMs = unixMS(l.clock.wall().Add(n.renewed - l.clock.boot()))
	for _, g := range n.Inventory.GPUs {
		gpu := &api.GPU{
			Index: uint32(g.Index), Name: g.Name, Uuid: g.UUID, MemoryBytes: g.MemoryBytes,
			Foreign: uint32(g.Foreign), Bad: g.Bad, Software: g.Software,
		}
		for _, r := range n.live {
			for _, index := range r.gpus {
				if index == g.Index {
					gpu.Launch = r.entry.ID
				}
			}
		}
		v.Inventory.Gpus = append(v.Inventory.Gpus, gpu)
	}
	for _, e := range n.entries() {
		v.Launches = append(v.Launches, e.ID)
	}
	return v
}

// codeRef converts the name of packed code for a message.
func codeRef(c record.Code) *api.CodeRef {
	hash, err := hex.DecodeString(c.Hash)
	if err != nil {
		return nil // never: it was encoded by codeOf
	}
	return &api.CodeRef{Hash: hash, Bytes: c.Bytes}
}

// codeOf converts the name of packed code of a message.
func codeOf(ref *api.CodeRef) record.Code {
	return record.Code{Hash: hex.EncodeToString(ref.GetHash()), Bytes: ref.GetBytes()}
}
