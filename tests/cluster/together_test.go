package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
)

// exchanging returns a launch of two processes that pass numbers to each other over TCP, until a
// file in a shared directory exists.
func (s *site) exchanging(dir string) launch.Spec {
	s.Helper()
	// A user other than root may not reach this checkout.
	script := filepath.Join(dir, "exchange.py")
	s.hosts[0].Run("install", "-m", "644", harness.Path("tests", "cluster", "testdata", "exchange.py"), script)
	one := launch.Process{Command: []string{"/usr/bin/python3", script, filepath.Join(dir, "on")}}
	return launch.Spec{Jobs: []launch.Job{{Name: "main", Processes: []launch.Process{one, one}}}}
}

// together returns a launch of five processes in one replica: those of exchanging, two that count
// on GPUs of their own, and one that ends at once. The others end, all of them well, once a file
// in a shared directory exists.
func (s *site) together(dir string) launch.Spec {
	s.Helper()
	spec, counts := s.exchanging(dir), s.counting(dir).Jobs[0].Processes[0]
	counts.Command = []string{"/bin/sh", "-c", strings.Join(counts.Command, " ") + "; test $? = 7"}
	processes := &spec.Jobs[0].Processes
	*processes = append(*processes, counts, counts, launch.Process{Command: []string{"/bin/true"}})
	return spec
}

// stepping names the processes of such a launch that print their steps.
func stepping(id string) (all []string) {
	for process := range 4 {
		all = append(all, fmt.Sprintf("%s/main.0.%d", id, process))
	}
	return all
}

// tellsApart checks that commands reach each process of a restored replica, and none that has
// ended.
func (s *site) tellsApart(id string) {
	s.Helper()
	e := &subject{site: s, id: id, far: id, host: s.hosts[0]}
	for process, each := range stepping(id) {
		got := e.said(nil, each, "--", "sh", "-c", "echo $PHOS_PROCESS")
		if want := (answer{out: fmt.Sprintln(process)}); got != want {
			s.Errorf("beside process %d: %+v", process, got)
		}
	}
	if got := e.said(nil, id+"/main.0.4", "--", "true"); got.status == 0 || !strings.Contains(got.complaint, "has ended") {
		s.Errorf("beside one that has ended: %+v", got)
	}
}

// TestSuspendTogether: the processes of a replica are saved in one instant, with the connections
// between them, and go on where they were, twice. How one has ended before is still known.
func TestSuspendTogether(t *testing.T) {
	s := newSite(t, 1, 2)
	dir := s.share("witness")
	id := s.launch(s.together(dir))
	s.awaitRunning(id)
	s.awaitAllSteps(stepping(id), 1)
	for attempt := uint32(2); attempt <= 3; attempt++ {
		s.suspend(id)
		if left := s.hosts[0].Status().Programs; len(left) > 0 {
			t.Errorf("programs are left: %v", left)
		}
		s.resume(id)
		s.awaitRunning(id)
		s.awaitAllSteps(stepping(id), attempt)
		for _, each := range stepping(id) {
			s.continues(each, attempt)
		}
		s.tellsApart(id)
	}
	s.release(dir)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("got %s: %s: %v", got.GetResult(), got.GetReason(), got)
	}
	if kinds := s.events(id); !slices.Contains(kinds, "saved") || !slices.Contains(kinds, "restored") {
		t.Errorf("the events are %q", kinds)
	}
}

// TestAgentDiesDuringSaveTogether: the next agent knows an attempt that was killed by a save,
// though one of its processes had ended before.
func TestAgentDiesDuringSaveTogether(t *testing.T) {
	s := newSite(t, 1, 2)
	dir := s.share("witness")
	id := s.launch(s.together(dir))
	s.awaitRunning(id)
	s.awaitAllSteps(stepping(id), 1)
	if _, err := s.launches.Suspend(t.Context(), &api.ActRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	s.agents[0].Kill()
	s.agents[0].Start()
	s.await(id, "suspended")
	s.resume(id)
	s.awaitRunning(id)
	s.awaitAllSteps(stepping(id), 2)
	for _, each := range stepping(id) {
		s.continues(each, 2)
	}
	s.stop(id)
}

// TestDrainTogether: a replica of several processes is saved while it runs, and goes on at another
// host, by a directory that both share, with the rights of its owner. Only root's TCP connections
// can be saved, so these processes have one of unix sockets.
func TestDrainTogether(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSite(t, 2, 2)
	dir, images := s.share("witness"), s.share("images")
	spec := s.withShared(s.together(dir), images, time.Second)
	for i := range 2 {
		command := &spec.Jobs[0].Processes[i].Command
		*command = append(slices.Clone(*command), filepath.Join(dir, "socket"))
	}
	id := s.launchAs(daemonUser, spec)
	from := s.awaitRunning(id).GetReplicas()[0].GetNode()
	harness.Eventually(t, "two images were taken", func() bool { return len(s.get(id).GetImages()) >= 2 })
	s.awaitAllSteps(stepping(id), 1)
	yes := true
	if _, err := s.cluster.ChangeNode(t.Context(), &api.ChangeNodeRequest{Name: from, Draining: &yes}); err != nil {
		t.Fatal(err)
	}
	s.awaitMoved(id, from)
	s.awaitAllSteps(stepping(id), 2)
	for _, each := range stepping(id) {
		s.continues(each, 2)
	}
	s.release(dir)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("got %s: %s: %v", got.GetResult(), got.GetReason(), got)
	}
}
