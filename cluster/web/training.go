package web

import (
	"errors"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/pipeline/progress"
	"github.com/phos-gpu/phos/cluster/pipeline/schedule"
)

// maxPasses is how many passes of an iteration are drawn. A plan comes from a program of a user,
// which may have made it up.
const maxPasses = 4000

// maxShown is how many ranks are listed.
const maxShown = 500

// training is how a launch trains with phos.pipeline.
type training struct {
	Step      int            `json:"step"`
	Steps     int            `json:"steps"`
	Loss      *float64       `json:"loss"`
	Seconds   float64        `json:"seconds"`
	PlannedNS int64          `json:"planned_ns"`
	Faults    int            `json:"faults"`
	Wanted    int            `json:"wanted_faults"`
	Said      int64          `json:"age_ms"`
	Pipelines []pipelineView `json:"pipelines"`
	Spare     []rankView     `json:"spare"`
	More      int            `json:"more"`   // ranks that are not listed
	Passes    []passView     `json:"passes"` // of the slowest pipeline
	Slowest   int            `json:"slowest"`
	Events    []changeView   `json:"events"` // the newest first
}

type pipelineView struct {
	Microbatches int        `json:"microbatches"`
	Stages       []rankView `json:"stages"`
}

// rankView is a rank, with the layers of its stage.
type rankView struct {
	Rank    int     `json:"rank"`
	Host    string  `json:"host"`
	Replica string  `json:"replica"`
	First   int     `json:"first"`
	Last    int     `json:"last"`
	Share   float64 `json:"share"` // of the last step, in which it computed
}

// passView is a pass of a stage, in nanoseconds since the iteration's start.
type passView struct {
	Stage      int   `json:"stage"`
	Microbatch int   `json:"microbatch"`
	Backward   bool  `json:"backward"`
	From       int64 `json:"from"`
	To         int64 `json:"to"`
}

// changeView is a change of the ranks.
type changeView struct {
	At           int64   `json:"at"` // ms
	Step         int     `json:"step"`
	Text         string  `json:"text"`
	Seconds      float64 `json:"seconds"`
	Bytes        int64   `json:"bytes"`
	Microbatches int     `json:"microbatches"`
}

// training answers how a launch trains; null if it does not, as most.
func (s *Server) training(q *request) (any, error) {
	reply, err := s.parts.Launches.Training(q.ctx, &api.GetRequest{Id: q.PathValue("id")})
	if errors.Is(s.parts.Translate(err), api.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	status, err := progress.Read(reply.GetStatus())
	if err != nil || status.Plan == nil {
		return nil, nil // the program says something else, or no node knows anything
	}
	return trainingOf(status, reply.GetAgeMs()), nil
}

// trainingOf converts what a training has said of itself.
func trainingOf(s *progress.Status, age int64) training {
	t := training{
		Step: s.Step, Steps: s.Steps, Loss: s.Loss, Seconds: s.Seconds, PlannedNS: s.Plan.IterationTime(),
		Faults: s.Plan.Spec.Faults, Wanted: s.Faults, Said: age, Passes: passesOf(s), Slowest: s.Slowest(),
		Pipelines: []pipelineView{}, Spare: []rankView{}, Events: []changeView{},
	}
	shown := 0
	for _, each := range s.Plan.Pipelines {
		if shown += len(each.Nodes); shown > maxShown {
			t.More += len(each.Nodes)
			continue
		}
		view := pipelineView{Microbatches: each.Microbatches}
		for _, stage := range s.Plan.Template(each.Template).Stages {
			rank := rankOf(s, s.Of(each.Nodes[stage.Node]))
			rank.First, rank.Last = stage.From, stage.To-1
			view.Stages = append(view.Stages, rank)
		}
		t.Pipelines = append(t.Pipelines, view)
	}
	for _, node := range s.Plan.Spare {
		if shown++; shown > maxShown {
			t.More++
			continue
		}
		t.Spare = append(t.Spare, rankOf(s, s.Of(node)))
	}
	for i := len(s.Events) - 1; i >= 0; i-- {
		e := &s.Events[i]
		t.Events = append(t.Events, changeView{
			e.Time().UnixMilli(), e.Step, plain(e.Text()), e.Seconds, max(0, e.Bytes), e.Microbatches,
		})
	}
	return t
}

// rankOf converts a rank.
func rankOf(s *progress.Status, r progress.Rank) rankView {
	return rankView{Rank: r.Rank, Host: plain(r.Host), Replica: plain(r.Replica), Share: s.Share(r)}
}

// passesOf returns the passes of an iteration of the slowest pipeline; none if there are too many.
func passesOf(s *progress.Status) []passView {
	slowest := s.Plan.Pipelines[s.Slowest()]
	template := s.Plan.Template(slowest.Template)
	all := []passView{}
	if len(template.Stages) == 0 || slowest.Microbatches > maxPasses/2/len(template.Stages) {
		return all
	}
	passes, _ := schedule.Run(schedule.WorkOf(s.Plan.Profile, template), slowest.Microbatches)
	for _, each := range passes {
		all = append(all, passView(each))
	}
	return all
}
