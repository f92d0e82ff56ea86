package web

import (
	"fmt"
	"strconv"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/words"
)

// Launches of one answer: by default, and at most.
const (
	pageLaunches    = 25
	maxPageLaunches = 100
)

// groups are the lists of the page, with the phases that they have.
var groups = map[string][]string{
	"all":    nil,
	"active": {"waiting", "queued", "running", "stopping", "suspended"},
	"queue":  {"waiting", "queued"},
	"ended":  {"ended"},
}

// number reads a number of the query; the default if there is none.
func (q *request) number(name string, usual uint32) (uint32, error) {
	text := q.FormValue(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, api.Invalid(fmt.Sprintf("%s is %q: want a number", name, words.Clip(text)))
	}
	return uint32(n), nil
}

// listRequest reads which launches the page asks for.
func (q *request) listRequest() (*api.ListRequest, error) {
	wanted := &api.ListRequest{Ended: true, Ids: q.Form["id"], Owner: q.FormValue("owner"), History: true}
	if len(wanted.Ids) > maxPageLaunches {
		return nil, api.Invalid(fmt.Sprintf("at most %d launches by id", maxPageLaunches))
	}
	group := q.FormValue("group")
	phases, ok := groups[group]
	if !ok && group != "" {
		return nil, api.Invalid(fmt.Sprintf("group %q: want all, active, queue or ended", words.Clip(group)))
	}
	wanted.Phases = phases
	limit, err := q.number("limit", pageLaunches)
	if err != nil {
		return nil, err
	}
	if wanted.Before, err = q.number("before", 0); err != nil {
		return nil, err
	}
	if q.Form.Has("after") {
		after, err := q.number("after", 0)
		if err != nil {
			return nil, err
		}
		wanted.After = &after
	}
	wanted.Limit = max(1, min(limit, maxPageLaunches)) + 1 // one more says that there are more
	return wanted, nil
}

// list answers with one page of launches.
func (s *Server) list(q *request) (any, error) {
	if err := q.ParseForm(); err != nil {
		return nil, api.Invalid("the address: " + err.Error())
	}
	wanted, err := q.listRequest()
	if err != nil {
		return nil, err
	}
	found, err := s.parts.Launches.List(q.ctx, wanted)
	if err != nil {
		return nil, err
	}
	launches := found.GetLaunches()
	more := len(launches) == int(wanted.GetLimit())
	if more {
		launches = launches[:len(launches)-1]
	}
	reply := struct {
		Launches []launch `json:"launches"`
		More     bool     `json:"more"`
	}{make([]launch, 0, len(launches)), more}
	for _, each := range launches {
		reply.Launches = append(reply.Launches, launchOf(each, maxReplicasInList))
	}
	return reply, nil
}

// launch answers with one launch.
func (s *Server) launch(q *request) (any, error) {
	found, err := s.parts.Launches.List(q.ctx, &api.ListRequest{
		Ended: true, Ids: []string{q.PathValue("id")}, History: true, Limit: 1,
	})
	if err != nil {
		return nil, err
	}
	if len(found.GetLaunches()) == 0 {
		return nil, &api.Error{Text: fmt.Sprintf("there is no launch %q", words.Clip(q.PathValue("id"))), Err: api.ErrNotFound}
	}
	return launchOf(found.GetLaunches()[0], maxReplicas), nil
}

// why answers why a launch waits.
func (s *Server) why(q *request) (any, error) {
	found, err := s.parts.Launches.Why(q.ctx, &api.GetRequest{Id: q.PathValue("id")})
	if err != nil {
		return nil, err
	}
	reply := struct {
		Reasons  []string `json:"reasons"`
		Estimate int64    `json:"estimate"`
	}{[]string{}, found.GetEstimateUnixMs()}
	for _, each := range found.GetReasons() {
		reply.Reasons = append(reply.Reasons, plain(each))
	}
	return reply, nil
}

// actOnLaunch stops, suspends or resumes a launch.
func (s *Server) actOnLaunch(q *request) (any, error) {
	if err := q.mayChange(); err != nil {
		return nil, err
	}
	act := map[string]func(*api.ActRequest) (*api.ActReply, error){
		"stop":    func(r *api.ActRequest) (*api.ActReply, error) { return s.parts.Launches.Stop(q.ctx, r) },
		"suspend": func(r *api.ActRequest) (*api.ActReply, error) { return s.parts.Launches.Suspend(q.ctx, r) },
		"resume":  func(r *api.ActRequest) (*api.ActReply, error) { return s.parts.Launches.Resume(q.ctx, r) },
	}[q.PathValue("act")]
	if act == nil {
		return nil, &api.Error{Text: "a launch can be stopped, suspended and resumed", Err: api.ErrNotFound}
	}
	reply, err := act(&api.ActRequest{Id: q.PathValue("id")})
	if err != nil {
		return nil, err
	}
	return launchOf(reply.GetLaunch(), maxReplicas), nil
}
