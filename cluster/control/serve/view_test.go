package serve

import (
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
)

// TestStatus: a launch has the exit status of its first process that has failed, as a shell says
// it. A code that says that nothing is known is none.
func TestStatus(t *testing.T) {
	for _, test := range []struct {
		exit launch.Exit
		want int32
	}{
		{launch.Exit{Code: 3}, 3},
		{launch.Exit{Signal: 9}, 137},
		{launch.Exit{Error: "no such file"}, 1},
		{launch.UnknownExit(0, "its supervisor is lost"), 1},
	} {
		ended := launch.State{
			Phase: launch.Ended, Result: launch.Failed,
			Replicas: []launch.Replica{{Exits: []launch.Exit{{Signal: 15, Stopped: true}, {}, test.exit}}},
		}
		if got := status(&ended); got != test.want {
			t.Errorf("%+v: status %d, want %d", test.exit, got, test.want)
		}
	}
}
