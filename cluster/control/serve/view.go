package serve

import (
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/cluster/record"
)

// unixMS returns a time as messages have it; 0 if it is unknown.
func unixMS(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// launchViews returns launches for people.
func launchViews(launches []*record.Launch) (views []*api.Launch) {
	for _, l := range launches {
		views = append(views, launchView(l))
	}
	return views
}

// launchView returns a launch for people.
func launchView(l *record.Launch) *api.Launch {
	spec := &l.State.Spec
	v := &api.Launch{
		Id: l.ID, Number: uint32(l.Number), Name: spec.Name, Owner: l.Owner,
		Phase: string(l.State.Phase), Result: string(l.State.Result), Reason: l.State.Reason,
		Generation: uint32(l.State.Generation), Priority: int32(spec.Priority), Description: spec.Description,
		SubmittedUnixMs: unixMS(l.Submitted), StartedUnixMs: unixMS(l.Started), EndedUnixMs: unixMS(l.Ended),
		CheckpointUnixMs: unixMS(l.Saved), WantedGpus: uint32(wantedGPUs(spec)), Status: status(&l.State),
	}
	if l.State.Phase != launch.Ended {
		v.Result = "" // it is not final
	}
	for i := range l.State.Replicas {
		r := replicaView(l, i)
		v.Replicas = append(v.Replicas, r)
		v.Gpus += uint32(len(r.GetGpus()))
	}
	return v
}

// replicaView returns a replica for people.
func replicaView(l *record.Launch, i int) *api.Replica {
	r := &l.State.Replicas[i]
	v := &api.Replica{
		Job: l.State.Spec.Jobs[r.Job].Name, Index: uint32(r.Index), Attempt: uint32(r.Attempt),
		Phase: replicaPhase(&l.State, r), Node: r.Node, Retries: uint32(r.Retries), Exits: messages.Exits(r.Exits),
	}
	if r.Live {
		v.Gpus = messages.Numbers(r.GPUs)
	}
	for k := len(l.Spans) - 1; k >= 0; k-- {
		if s := &l.Spans[k]; s.Replica == i && s.Attempt == r.Attempt {
			v.StartedUnixMs, v.EndedUnixMs = unixMS(s.From), unixMS(s.To)
			break
		}
	}
	return v
}

// replicaPhase returns a word for how far a replica is.
func replicaPhase(s *launch.State, r *launch.Replica) string {
	switch {
	case r.Live && (s.Phase == launch.Stopping || r.Leaving):
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
			case exit.Code > 0:
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

// historyView returns the course of a launch for people.
func historyView(l *record.Launch) *api.History {
	h := &api.History{}
	for _, s := range l.Spans {
		r := &l.State.Replicas[s.Replica]
		h.Spans = append(h.Spans, &api.Span{
			Job: l.State.Spec.Jobs[r.Job].Name, Index: uint32(r.Index), Attempt: uint32(s.Attempt), Node: s.Node,
			FromUnixMs: unixMS(s.From), ToUnixMs: unixMS(s.To),
		})
	}
	for _, e := range l.Events {
		h.Events = append(h.Events, eventView(e, l.ID, ""))
	}
	return h
}

// eventView returns an event of a launch or node for people.
func eventView(e record.Event, launchID, node string) *api.Event {
	return &api.Event{
		UnixMs: e.At.UnixMilli(), Launch: launchID, Node: node, Kind: e.Kind, Text: e.Text, Epoch: uint64(e.Epoch),
		Number: uint64(e.Number),
	}
}

// nodeViews returns nodes for people.
func nodeViews(nodes []control.NodeNow) (views []*api.Node) {
	for _, n := range nodes {
		views = append(views, nodeView(n))
	}
	return views
}

// nodeView returns a node for people.
func nodeView(n control.NodeNow) *api.Node {
	v := &api.Node{
		Name: n.Name, State: n.State, Cordoned: n.Cordoned, Draining: n.Draining,
		Cluster: n.Cluster, Shard: n.Shard, Labels: n.Labels, Address: n.Address, Version: n.Version, BootId: n.BootID,
		SeenUnixMs: unixMS(n.Seen), Launches: n.Launches,
		UsedMillicpus: n.Millicpus, UsedMemoryBytes: n.Memory,
		Inventory: &api.Inventory{
			Cpus: uint32(n.Inventory.CPUs), MemoryBytes: n.Inventory.MemoryBytes, Os: n.Inventory.OS,
			Kernel: n.Inventory.Kernel, PhosdVersion: n.Inventory.Phosd, PhosdError: n.Inventory.PhosdError,
		},
	}
	for _, g := range n.Inventory.GPUs {
		v.Inventory.Gpus = append(v.Inventory.Gpus, &api.GPU{
			Index: uint32(g.Index), Name: g.Name, Uuid: g.UUID, MemoryBytes: g.MemoryBytes,
			Foreign: uint32(g.Foreign), Bad: g.Bad, Software: g.Software, Launch: n.Users[g.Index],
			ForeignProcesses: n.Foreign[g.Index],
		})
	}
	return v
}
