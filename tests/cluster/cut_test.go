package cluster

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
	"github.com/phos-gpu/phos/tests/hosts"
)

// several returns a counting launch of some replicas.
func (s *site) several(dir string, replicas int) launch.Spec {
	s.Helper()
	spec := s.counting(dir)
	spec.Jobs[0].Replicas = launch.Replicas{Min: replicas, Max: replicas}
	return spec
}

// replicasOf names the replicas of such a launch.
func replicasOf(id string, count int) (all []string) {
	for i := range count {
		all = append(all, fmt.Sprintf("%s/main.%d", id, i))
	}
	return all
}

// allGoOn waits until all replicas go on in their next attempt, and checks that they have lost and
// repeated no step.
func (s *site) allGoOn(id string, count int, attempt uint32) {
	s.Helper()
	for _, each := range replicasOf(id, count) {
		_, last := s.steps(each, attempt-1)
		s.awaitSteps(each, attempt, last)
		s.continues(each, attempt)
	}
}

// TestCut: the replicas of a launch are saved in one cut, stop together, and go on, also elsewhere.
func TestCut(t *testing.T) {
	const replicas = 3
	s := newSite(t, 3, 2)
	dir := s.share("witness")
	id := s.launchAs(daemonUser, s.several(dir, replicas))
	s.awaitRunning(id)
	for _, each := range replicasOf(id, replicas) {
		s.awaitSteps(each, 1, 0)
	}
	got := s.suspend(id)
	if len(got.GetImages()) != replicas || got.GetCheckpointUnixMs() == 0 {
		t.Errorf("its images are %v", got.GetImages())
	}
	for _, h := range s.hosts {
		if left := h.Status().Programs; len(left) > 0 {
			t.Errorf("on %s are left: %v", h.Name, left)
		}
	}
	s.resume(id)
	s.awaitRunning(id)
	s.allGoOn(id, replicas, 2)
	from := s.get(id).GetReplicas()[0].GetNode()
	s.drain(from, true)
	s.awaitMoved(id, from)
	s.allGoOn(id, replicas, 3)
	s.drain(from, false)
	s.finish(id, dir)
	kinds := s.events(id)
	if !slices.Contains(kinds, "saved") || slices.Contains(kinds, "not saved") {
		t.Errorf("its events are %v", kinds)
	}
}

// TestCutWhileRunning: a launch whose host dies goes back to its last cut, with all replicas.
func TestCutWhileRunning(t *testing.T) {
	t.Parallel() // it waits most of the time
	const replicas = 2
	s := newSiteWith(t, shape{hosts: 4, controllers: 1, gpus: 1}, withCopies)
	dir := s.share("witness")
	spec := s.several(dir, replicas)
	spec.Checkpoint.Every = launch.Duration(2 * time.Second)
	spec.Place.Hostnames = []string{"node2", "node3", "node4"} // the controller is on the other one
	id := s.launch(spec)
	s.awaitRunning(id)
	harness.Eventually(t, "the images of a cut have copies", func() bool {
		current := 0
		for _, image := range s.get(id).GetImages() {
			if image.GetCurrent() && image.GetRisk() == "" && len(image.GetCopies()) == 1 {
				current++
			}
		}
		return current == replicas
	})
	reached := map[string]int{}
	for _, each := range replicasOf(id, replicas) {
		_, reached[each] = s.steps(each, 1)
	}
	victim := s.host(s.get(id).GetReplicas()[1].GetNode())
	victim.Kill()
	s.awaitMoved(id, victim.Name)
	for _, each := range replicasOf(id, replicas) {
		s.awaitSteps(each, 2, 0)
		if first, _ := s.steps(each, 2); first <= 0 {
			t.Errorf("%s begins with step %d: it has lost what it had", each, first)
		}
	}
	s.finish(id, dir)
}

// TestCutFails: a part that cannot be saved leaves all running, and says why.
func TestCutFails(t *testing.T) {
	const replicas = 2
	s := newSite(t, 2, 1)
	dir := s.share("witness")
	id := s.launch(s.several(dir, replicas))
	s.awaitRunning(id)
	for _, each := range replicasOf(id, replicas) {
		s.awaitSteps(each, 1, 0)
	}
	victim := s.phosds[slices.Index(s.hosts, s.host(s.get(id).GetReplicas()[1].GetNode()))]
	victim.Kill()
	if _, err := s.launches.Suspend(t.Context(), &api.ActRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the cut has failed", func() bool { return slices.Contains(s.events(id), "not saved") })
	s.await(id, "running")
	for _, each := range replicasOf(id, replicas) {
		_, last := s.steps(each, 1)
		s.awaitSteps(each, 1, last)
	}
	victim.Start()
	s.suspend(id)
	s.resume(id)
	s.awaitRunning(id)
	s.allGoOn(id, replicas, 2)
	s.finish(id, dir)
}

// talking returns a launch of two replicas that pass numbers to each other over TCP, in a network
// of their own.
func (s *site) talking(dir string) launch.Spec {
	s.Helper()
	spec := s.exchanging(dir)
	one := &spec.Jobs[0]
	one.Replicas, one.Processes = launch.Replicas{Min: 2, Max: 2}, one.Processes[:1]
	spec.Network = launch.OwnNetwork
	return spec
}

// TestConnections: replicas that talk to each other over TCP are saved in one cut as a user, go on
// on other hosts, and neither lose nor repeat a message.
func TestConnections(t *testing.T) {
	const replicas = 2
	s := newSite(t, 3, 1)
	dir := s.share("witness")
	spec := s.talking(dir)
	spec.Jobs[0].Processes[0].Resources.GPUs = 1 // one to a host
	id := s.launchAs(daemonUser, spec)
	s.awaitRunning(id)
	for _, each := range replicasOf(id, replicas) {
		s.awaitSteps(each, 1, 0)
	}
	s.suspend(id)
	s.resume(id)
	s.awaitRunning(id)
	s.allGoOn(id, replicas, 2)
	for attempt := uint32(3); attempt <= 4; attempt++ {
		from := s.get(id).GetReplicas()[0].GetNode()
		s.drain(from, true)
		s.awaitMoved(id, from)
		s.allGoOn(id, replicas, attempt)
		s.drain(from, false)
	}
	s.release(dir)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("it has ended: %s: %s", got.GetResult(), got.GetReason())
	}
}

// TestCollective: ranks whose work on GPUs waits for each other are saved in one cut, though the
// work of one does not end while the calls of the other one are held up.
func TestCollective(t *testing.T) {
	const replicas = 2
	s := newSite(t, 3, 1)
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	dir := s.share("witness")
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "collective.c"))
	id := s.launchAs(daemonUser, launch.Spec{Network: launch.OwnNetwork, Jobs: []launch.Job{{
		Name: "main", Replicas: launch.Replicas{Min: replicas, Max: replicas}, Processes: []launch.Process{{
			Command: []string{program, filepath.Join(dir, "on")}, Resources: launch.Resources{GPUs: 1},
		}},
	}}})
	s.awaitRunning(id)
	attempt := uint32(1)
	for number := range rounds.Of(6, 60) {
		s.awaitAllSteps(replicasOf(id, replicas), attempt)
		if number%2 == 0 {
			s.checkpoint(id)
			continue
		}
		s.suspend(id)
		s.resume(id)
		s.awaitRunning(id)
		attempt++
		s.allGoOn(id, replicas, attempt)
	}
	busy := 0
	for _, each := range s.phosds {
		busy += strings.Count(each.LogText(), "programs of the cut yield")
	}
	if busy == 0 {
		t.Error("no rank was ever busy: the test shows nothing")
	}
	s.release(dir)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("it has ended: %s: %s\n%s", got.GetResult(), got.GetReason(), s.logs(id))
	}
	t.Logf("they have yielded %d times", busy)
}

// TestCutFaults: something dies at a random moment of a cut. The launch then runs on, as it was, or
// is suspended with all replicas in one cut: no message is lost or repeated in either case.
func TestCutFaults(t *testing.T) {
	t.Parallel() // it waits most of the time
	const replicas = 2
	s := newSite(t, 2, 1)
	dir := s.share("witness")
	spec := s.talking(dir)
	spec.Jobs[0].Processes[0].Resources.GPUs = 1 // one to a host
	id := s.launchAs(daemonUser, spec)
	again := func(d *hosts.Daemon) func() {
		return func() { d.Kill(); d.Start() }
	}
	faults := []struct {
		name string
		do   func()
	}{
		{"phosd", again(s.phosds[1])},
		{"agent", again(s.agents[1])},
		{"controller", again(s.controllers[0])},
		{"network", func() {
			s.hosts[1].CutOff(hosts.Both)
			time.Sleep(rand.N(2 * time.Second))
			s.hosts[1].Heal()
		}},
	}
	suspended := 0
	first := rounds.First(len(faults))
	for number := range rounds.Of(len(faults), 100) {
		s.awaitRunning(id)
		attempt := s.get(id).GetReplicas()[0].GetAttempt()
		for _, each := range replicasOf(id, replicas) {
			_, now := s.steps(each, attempt)
			s.awaitSteps(each, attempt, now)
		}
		fault := faults[(first+number)%len(faults)]
		if _, err := s.launches.Suspend(t.Context(), &api.ActRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(150 * time.Millisecond))
		fault.do()
		phase := ""
		harness.Eventually(t, "the launch is suspended, or runs on, after the loss of "+fault.name, func() bool {
			phase = s.get(id).GetPhase()
			return phase == "suspended" || phase == "running"
		})
		if phase == "running" {
			continue
		}
		suspended++
		s.resume(id)
		s.awaitRunning(id)
		s.allGoOn(id, replicas, attempt+1)
	}
	t.Logf("suspended %d times", suspended)
	s.awaitRunning(id)
	s.release(dir)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("it has ended: %s: %s\n%s", got.GetResult(), got.GetReason(), s.logs(id))
	}
}
