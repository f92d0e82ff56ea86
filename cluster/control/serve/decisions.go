package serve

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/decisions"
	"github.com/phos-gpu/phos/cluster/identity"
)

// sendLog sends the scheduler's log of this leadership. It names the launches of all users.
func (s *launches) sendLog(
	caller identity.Caller, request *api.EventsRequest, stream api.Launches_EventsServer,
) error {
	switch {
	case !maySee(caller, ""):
		return fmt.Errorf("%w: the log has the launches of all users, and this is %s", api.ErrNotPermitted, caller)
	case request.GetFollow() || request.GetLaunch() != "" || request.GetNode() != "":
		return api.Invalid("the scheduler's log is that of all launches and nodes, and ends now")
	}
	err := decisions.Read(s.Settings().Decisions, func(line string) error {
		return stream.Send(&api.Event{Text: line})
	})
	if errors.Is(err, decisions.ErrNone) {
		return fmt.Errorf("%w: this controller keeps none", err)
	}
	return err
}
