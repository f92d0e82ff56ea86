package apitest

import (
	"bytes"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
)

// Exec runs no command: its words are what it prints, and it ends as Cluster.Ends says.
func (s *launches) Exec(stream api.Launches_ExecServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	id, _, _ := strings.Cut(first.GetStart().GetWhat(), "/")
	end := &api.ExecEnd{}
	err = s.named(id, func(e *entry) error {
		if e.ended() {
			return api.Invalid("nothing runs there")
		}
		if s.cluster.Ends != nil {
			end = s.cluster.Ends
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, reply := range []*api.ExecReply{
		{Message: &api.ExecReply_Started{Started: &api.ExecStarted{Process: id + "/main.0.0", Node: "n1"}}},
		{Message: &api.ExecReply_Output{Output: append(bytes.Join(first.GetStart().GetCommand(), []byte(" ")), '\n')}},
		{Message: &api.ExecReply_End{End: end}},
	} {
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
	return nil
}
