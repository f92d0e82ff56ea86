package control

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
)

// TestNoRoom: a launch that does not want to wait runs if there is room, and ends with what is
// missing if there is none.
func TestNoRoom(t *testing.T) {
	for name, gpus := range map[string]int{"GPUs": 2, "places": 0} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.join("a", 2)
			spec := simple(1, gpus)
			spec.Queue, spec.Place.WholeNodes = launch.Refuse, true
			first := w.launch(spec)
			w.await(first, launch.Running)
			running := a.awaitRunning(1)
			second := w.await(w.launch(spec), launch.Ended)
			if second.State.Result != launch.Failed || !strings.HasPrefix(second.State.Reason, "no room: ") {
				t.Errorf("the second ended as %s: %s", second.State.Result, second.State.Reason)
			}
			a.finish(running[0], 0)
			w.await(first, launch.Ended)
			w.await(w.launch(spec), launch.Running)
		})
	}
}
