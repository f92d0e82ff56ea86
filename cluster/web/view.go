package web

import (
	"cmp"
	"fmt"

	"github.com/phos-gpu/phos/cluster/api"
)

// launch is a launch for the page. Times are milliseconds since 1970; 0 is unknown.
type launch struct {
	ID          string    `json:"id"`
	Number      uint32    `json:"number"`
	Name        string    `json:"name"`
	Owner       string    `json:"owner"`
	Phase       string    `json:"phase"`
	Result      string    `json:"result,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Description string    `json:"description,omitempty"`
	Status      int32     `json:"status"`
	Priority    int32     `json:"priority"`
	Submitted   int64     `json:"submitted"`
	Started     int64     `json:"started"`
	Ended       int64     `json:"ended"`
	Checkpoint  int64     `json:"checkpoint"`
	Wanted      uint32    `json:"wanted"`
	GPUs        uint32    `json:"gpus"`
	Restarts    uint32    `json:"restarts"`
	Replicas    []replica `json:"replicas"`
	// Total is how many replicas there are; a list has only the first ones.
	Total int `json:"total"`
}

// replica is a replica for the page.
type replica struct {
	Name    string   `json:"name"`
	Phase   string   `json:"phase"`
	Node    string   `json:"node,omitempty"`
	GPUs    []uint32 `json:"gpus,omitempty"`
	Attempt uint32   `json:"attempt"`
	Exit    string   `json:"exit,omitempty"`
	course
}

// Replicas of a launch that one answer has.
const (
	maxReplicasInList = 8
	maxReplicas       = 512
)

// launchOf converts a launch, with at most so many replicas.
func launchOf(l *api.Launch, most int) launch {
	v := launch{
		ID: l.GetId(), Number: l.GetNumber(), Name: plain(l.GetName()), Owner: plain(l.GetOwner()), Phase: l.GetPhase(),
		Result: l.GetResult(), Reason: plain(l.GetReason()), Description: plain(l.GetDescription()),
		Status: l.GetStatus(), Priority: l.GetPriority(), Submitted: l.GetSubmittedUnixMs(), Started: l.GetStartedUnixMs(),
		Ended: l.GetEndedUnixMs(), Checkpoint: l.GetCheckpointUnixMs(), Wanted: l.GetWantedGpus(), GPUs: l.GetGpus(),
		Total: len(l.GetReplicas()), Replicas: []replica{},
	}
	h := newHistory(l)
	for i, r := range l.GetReplicas() {
		v.Restarts += max(r.GetAttempt(), 1) - 1
		if i < most {
			v.Replicas = append(v.Replicas, replicaOf(h, r))
		}
	}
	return v
}

// replicaOf converts a replica.
func replicaOf(h *history, r *api.Replica) replica {
	return replica{
		Name: plain(fmt.Sprintf("%s.%d", r.GetJob(), r.GetIndex())), Phase: r.GetPhase(), Node: r.GetNode(), GPUs: r.GetGpus(),
		Attempt: r.GetAttempt(), Exit: exitText(r.GetExits()), course: h.course(r),
	}
}

// exitText says how the first process that has failed has ended.
func exitText(exits []*api.Exit) string {
	for _, e := range exits {
		switch {
		case e.GetStopped():
		case e.GetError() != "":
			return plain(e.GetError())
		case e.GetOutOfMemory():
			return fmt.Sprintf("process %d: out of memory", e.GetProcess())
		case e.GetSignal() != 0:
			return fmt.Sprintf("process %d: killed by signal %d", e.GetProcess(), e.GetSignal())
		case e.GetCode() != 0:
			return fmt.Sprintf("process %d: exit status %d", e.GetProcess(), e.GetCode())
		}
	}
	return ""
}

// label returns what people call a launch.
func label(l *api.Launch) string {
	return cmp.Or(plain(l.GetName()), fmt.Sprint(l.GetNumber()))
}
