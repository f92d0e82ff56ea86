package clusterfudge

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// known is a launch with its description.
type known struct {
	*api.Launch
	spec   launch.Spec
	script string
}

// ask returns a launch.
func (c client) ask(ctx context.Context, id string) (known, error) {
	reply, err := c.launches.Get(ctx, &api.GetRequest{Id: id})
	if err != nil {
		return known{}, err
	}
	spec, err := launch.ReadJSON(reply.GetSpec())
	return known{reply.GetLaunch(), spec, valid(reply.GetScript())}, err
}

// valid returns text for a field that must be UTF-8.
func valid(text []byte) string { return strings.ToValidUTF8(string(text), "\ufffd") }

// get returns a launch as the client sees it.
func (c client) get(ctx context.Context, id string) (*wire.Launch, error) {
	k, err := c.ask(ctx, id)
	if err != nil {
		return nil, err
	}
	view := k.view()
	view.SchedulingLog, err = c.schedulingLog(ctx, k)
	return view, err
}

// schedulingLog says why a launch waits, or what was decided.
func (c client) schedulingLog(ctx context.Context, k known) ([]string, error) {
	if p := launch.Phase(k.GetPhase()); p != launch.Queued && p != launch.Waiting {
		if k.GetReason() == "" {
			return nil, nil
		}
		return strings.Split(k.GetReason(), "; "), nil
	}
	why, err := c.launches.Why(ctx, &api.GetRequest{Id: k.GetId()})
	return why.GetReasons(), err
}

// view returns a launch as the client sees it, without its scheduling log.
func (k known) view() *wire.Launch {
	s := &k.spec
	first := s.Jobs[0].Processes[0]
	view := &wire.Launch{
		LaunchId: int32(k.GetNumber()), Id: k.GetId(), LaunchedBy: k.GetOwner(), Title: s.Name, Description: s.Description,
		SubmittedAt: timestamp(k.GetSubmittedUnixMs()), Hostnames: k.nodes(), Status: k.status(),
		Command: first.Command, CommandToRun: strings.Join(first.Command, " "), Replicas: int32(len(k.GetReplicas())),
		ReplicaResources: resourcesView(first.Resources), LaunchScriptBody: k.script,
		GitRepo: s.Source.Git, GitBranch: s.Source.Branch, GitCommit: s.Source.Commit,
		Cluster: shownName(s.Place.Cluster), Shard: shownName(s.Place.Shard),
		LaunchType:        wire.LaunchType_LAUNCH_TYPE_COMMAND,
		NodeExclusivity:   exclusivity(s),
		QueueingBehaviour: &wire.QueueingBehaviour{QueueLaunch: s.Queue != launch.Refuse},
	}
	for _, job := range s.Jobs {
		view.Jobs = append(view.Jobs, jobView(job))
	}
	return view
}

// exclusivity says whether a launch wants whole nodes.
func exclusivity(s *launch.Spec) wire.NodeExclusivity {
	if s.Place.WholeNodes {
		return wire.NodeExclusivity_NODE_EXCLUSIVITY_REQUIRE_ENTIRE_NODE
	}
	return wire.NodeExclusivity_NODE_EXCLUSIVITY_SHARE_NODE
}

// shownName returns the name of a cluster or shard.
func shownName(name string) string {
	if name == "" {
		return unassigned
	}
	return name
}

// timestamp returns a time; nil if it is unknown.
func timestamp(unixMS int64) *timestamppb.Timestamp {
	if unixMS == 0 {
		return nil
	}
	return timestamppb.New(time.UnixMilli(unixMS))
}

// nodes returns the nodes of a launch, by name.
func (k known) nodes() (names []string) {
	for _, r := range k.GetReplicas() {
		if r.GetNode() != "" {
			names = append(names, r.GetNode())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// status returns how far a launch is. One that is suspended waits like one that is queued; one that
// is being stopped still runs.
func (k known) status() wire.Launch_Status {
	switch launch.Phase(k.GetPhase()) {
	case launch.Waiting, launch.Queued, launch.Suspended:
		return wire.Launch_LAUNCH_STATUS_QUEUED
	case launch.Stopping:
		return wire.Launch_LAUNCH_STATUS_RUNNING
	case launch.Running:
		if slices.ContainsFunc(k.GetReplicas(), func(r *api.Replica) bool { return r.GetPhase() != "pending" && r.GetPhase() != "starting" }) {
			return wire.Launch_LAUNCH_STATUS_RUNNING
		}
		return wire.Launch_LAUNCH_STATUS_PENDING
	case launch.Ended:
	}
	switch launch.Result(k.GetResult()) {
	case launch.Completed:
		return wire.Launch_LAUNCH_STATUS_COMPLETED
	case launch.Stopped:
		return wire.Launch_LAUNCH_STATUS_STOPPED
	case launch.Failed:
	}
	return wire.Launch_LAUNCH_STATUS_FAILED
}

// jobView translates a job for the client. Of a range of replicas it sees the most.
func jobView(j launch.Job) *wire.Job {
	view := &wire.Job{ShortName: j.Name, Replicas: int32(j.Replicas.Max)}
	if j.OnReplicaFailure == launch.KeepOthers {
		view.OnReplicaFailure = &wire.Job_OnReplicaFailureOtherReplicasContinue{}
	} else {
		view.OnReplicaFailure = &wire.Job_OnReplicaFailureOtherReplicasAreStopped{}
	}
	for _, p := range j.Processes {
		view.Processes = append(view.Processes, &wire.Process{
			Command: p.Command, ResourceRequirements: resourcesView(p.Resources),
		})
	}
	return view
}
