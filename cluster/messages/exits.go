package messages

import (
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// Exits converts how processes ended for a message.
func Exits(exits []launch.Exit) (out []*api.Exit) {
	for _, e := range exits {
		out = append(out, &api.Exit{
			Process: uint32(e.Process), Code: int32(e.Code), Signal: int32(e.Signal), OutOfMemory: e.OutOfMemory,
			Error: e.Error, Stopped: e.Stopped,
		})
	}
	return out
}

// ExitsOf converts the exits of a message.
func ExitsOf(exits []*api.Exit) (out []launch.Exit) {
	for _, e := range exits {
		out = append(out, launch.Exit{
			Process: int(e.GetProcess()), Code: int(e.GetCode()), Signal: int(e.GetSignal()),
			OutOfMemory: e.GetOutOfMemory(), Error: e.GetError(), Stopped: e.GetStopped(),
		})
	}
	return out
}

// Numbers converts numbers for a message.
func Numbers(list []int) (out []uint32) {
	for _, each := range list {
		out = append(out, uint32(each))
	}
	return out
}
