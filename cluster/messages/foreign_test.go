package messages

import (
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
)

// TestForeignUse: the text names processes that use a GPU, not too many, and says which run under
// phos.
func TestForeignUse(t *testing.T) {
	held := uint64(4 << 30)
	outside := &api.ForeignProcess{Pid: 7, User: "eve", UsedBytes: &held}
	local := &api.ForeignProcess{Pid: 8, User: "ada", UnderPhos: true}
	for want, all := range map[string][]*api.ForeignProcess{
		"": nil,
		"used by 1 process outside phos (pid 7 of eve, 4 GiB)":      {outside},
		"used by 1 process of no launch (pid 8 of ada, under phos)": {local},
		"used by 5 processes of no launch (pid 7 of eve, 4 GiB; pid 8 of ada, under phos; pid 7 of eve, 4 GiB; 2 more)": {
			outside, local, outside, outside, outside,
		},
	} {
		if got := ForeignUse(&api.GPU{Foreign: uint32(len(all)), ForeignProcesses: all}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
