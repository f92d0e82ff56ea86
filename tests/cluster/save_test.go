package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// counting returns a launch that counts on a GPU and checks each step
// (tests/workloads/checkpoint/count.c), until a file in a shared directory exists. It ends with
// status 7 then.
func (s *site) counting(dir string) launch.Spec {
	s.Helper()
	_, err := harness.CRIU()
	harness.Need(s.T, "criu", err)
	program := harness.CompileC(s.T, true, harness.Workload("checkpoint", "count.c"))
	return launch.Spec{Jobs: []launch.Job{{Name: "main", Processes: []launch.Process{{
		Command:   []string{program, "1000000", "5000", "2000", filepath.Join(dir, "on")},
		Resources: launch.Resources{GPUs: 1},
	}}}}}
}

// release lets a counting launch end.
func (s *site) release(dir string) {
	s.Helper()
	path := filepath.Join(s.hosts[0].Shared(), filepath.Base(dir), "on")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		s.Fatal(err)
	}
}

// steps returns the numbers of the steps that an attempt has printed, and checks that they follow
// each other.
func (s *site) steps(id string, attempt uint32) (first, last int) {
	s.Helper()
	first, last = -1, -1
	for line := range strings.Lines(s.logsOf(id, attempt)) {
		var number int
		var value string
		if count, _ := fmt.Sscanf(line, "step %d %s", &number, &value); count != 2 {
			continue
		}
		if first < 0 {
			first, last = number, number-1
		}
		if number != last+1 {
			s.Fatalf("attempt %d: step %d follows step %d", attempt, number, last)
		}
		last = number
	}
	return first, last
}

// awaitSteps waits until an attempt has printed some steps after one.
func (s *site) awaitSteps(id string, attempt uint32, after int) {
	s.Helper()
	harness.Eventually(s.T, fmt.Sprintf("attempt %d of %s gets beyond step %d", attempt, id, after), func() bool {
		_, last := s.steps(id, attempt)
		return last > after+5
	})
}

// awaitAllSteps waits until each of an attempt has printed some steps after those of the attempt
// before.
func (s *site) awaitAllSteps(ids []string, attempt uint32) {
	s.Helper()
	for _, each := range ids {
		before := 0
		if attempt > 1 {
			_, before = s.steps(each, attempt-1)
		}
		s.awaitSteps(each, attempt, before)
	}
}

// finish lets a counting launch end, and checks how.
func (s *site) finish(id, dir string) {
	s.Helper()
	s.release(dir)
	if got := s.await(id, "ended"); got.GetStatus() != 7 {
		s.Errorf("it has ended with status %d: %s: %v", got.GetStatus(), got.GetReason(), got)
	}
}

// continues checks that an attempt goes on where the one before it was saved: each step is printed
// once.
func (s *site) continues(id string, attempt uint32) {
	s.Helper()
	_, last := s.steps(id, attempt-1)
	if first, _ := s.steps(id, attempt); first != last+1 {
		s.Errorf("attempt %d begins with step %d, and the one before ended with %d", attempt, first, last)
	}
}

// suspend suspends a launch, and waits until it has no processes left.
func (s *site) suspend(id string) *api.Launch {
	s.Helper()
	if _, err := s.launches.Suspend(s.Context(), &api.ActRequest{Id: id}); err != nil {
		s.Fatal(err)
	}
	return s.await(id, "suspended")
}

// resume resumes a launch.
func (s *site) resume(id string) {
	s.Helper()
	if _, err := s.launches.Resume(s.Context(), &api.ActRequest{Id: id}); err != nil {
		s.Fatal(err)
	}
}

// events returns the kinds of events of a launch.
func (s *site) events(id string) (kinds []string) {
	s.Helper()
	stream, err := s.launches.Events(s.Context(), &api.EventsRequest{Launch: id})
	if err != nil {
		s.Fatal(err)
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return kinds
		}
		s.Logf("event: %s: %s", event.GetKind(), event.GetText())
		kinds = append(kinds, event.GetKind())
	}
}

// TestSuspend: a suspended launch has no processes, and goes on where it was, twice; its exit
// status is that of the program.
func TestSuspend(t *testing.T) {
	s := newSite(t, 1, 1)
	dir := s.share("witness")
	id := s.launch(s.counting(dir))
	s.awaitRunning(id)
	s.awaitSteps(id, 1, 0)
	for attempt := uint32(2); attempt <= 3; attempt++ {
		got := s.suspend(id)
		if len(got.GetImages()) != 1 || got.GetCheckpointUnixMs() == 0 {
			t.Errorf("its images are %v", got.GetImages())
		}
		s.keepsOnly(filepath.Join(s.hosts[0].DiskPath("/var/lib/phos-agent"), "images"), id, attempt-1)
		if left := s.hosts[0].Status().Programs; len(left) > 0 {
			t.Errorf("programs are left: %v", left)
		}
		_, last := s.steps(id, attempt-1)
		s.resume(id)
		s.awaitRunning(id)
		s.awaitSteps(id, attempt, last)
		s.continues(id, attempt)
	}
	s.finish(id, dir)
	if kinds := s.events(id); !slices.Contains(kinds, "saved") || !slices.Contains(kinds, "restored") {
		t.Errorf("the events are %q", kinds)
	}
}

// TestResumeOnOtherGPU: a launch whose GPU another one has got goes on on the GPU that it is given
// now, and not on that of the other.
func TestResumeOnOtherGPU(t *testing.T) {
	s := newSite(t, 1, 2)
	first, second, third := s.share("first"), s.share("second"), s.share("third")
	id := s.launch(s.counting(first))
	s.awaitSteps(id, 1, 0)
	busy := s.launch(s.counting(second))
	s.awaitSteps(busy, 1, 0)
	s.hasGPU(id, first, 0)
	s.hasGPU(busy, second, 1)
	_, last := s.steps(id, 1)
	s.suspend(id)
	taker := s.launch(s.counting(third))
	s.awaitSteps(taker, 1, 0)
	s.hasGPU(taker, third, 0)
	s.stop(busy)
	s.resume(id)
	s.awaitRunning(id)
	s.awaitSteps(id, 2, last)
	s.continues(id, 2)
	s.hasGPU(taker, third, 0)
	s.hasGPU(id, first, 1)
	s.finish(id, first)
	s.stop(taker)
}

// TestResumeBeforeFirstGPU: a launch that has not used its GPU yet uses the one that it is given
// now.
func TestResumeBeforeFirstGPU(t *testing.T) {
	s := newSite(t, 1, 2)
	first, second := s.share("first"), s.share("second")
	spec := s.counting(first)
	command := &spec.Jobs[0].Processes[0].Command
	*command = []string{"/bin/sh", "-c", "echo waits; until [ -e " + first + "/go ]; do sleep 0.05; done; exec " +
		strings.Join(*command, " ")}
	id := s.launch(spec)
	harness.Eventually(t, "it waits", func() bool { return strings.Contains(s.logs(id), "waits") })
	s.suspend(id)
	taker := s.launch(s.counting(second))
	s.awaitSteps(taker, 1, 0)
	s.hasGPU(taker, second, 0)
	s.resume(id)
	s.awaitRunning(id)
	if err := os.WriteFile(filepath.Join(s.hosts[0].Shared(), "first", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.awaitSteps(id, 2, 0)
	s.hasGPU(taker, second, 0)
	s.hasGPU(id, first, 1)
	s.finish(id, first)
	s.stop(taker)
}

// hasGPU checks that a launch of one process was given a GPU of the first host, and that the memory
// of its program, which watches a directory, is on that one alone.
func (s *site) hasGPU(id, dir string, want uint32) {
	s.Helper()
	given := s.get(id).GetReplicas()[0].GetGpus()
	status, has := s.hosts[0].Status(), []uint32{}
	for _, gpu := range status.GPUs {
		for _, p := range status.Programs {
			if strings.Contains(p.Command, dir) && slices.Contains(gpu.PIDs, p.PID) {
				has = append(has, gpu.Index)
			}
		}
	}
	if !slices.Equal(given, []uint32{want}) || !slices.Equal(has, given) {
		s.Errorf("launch %s was given GPUs %v and has memory on %v, want %d", id, given, has, want)
	}
}

// keepsOnly waits until a directory has images of one attempt of a launch alone.
func (s *site) keepsOnly(dir, id string, attempt uint32) {
	s.Helper()
	want := fmt.Sprintf("%s.0.%d", id, attempt)
	harness.Eventually(s.T, fmt.Sprintf("%s has only %s", dir, want), func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) == 1 && entries[0].Name() == want
	})
}

// withShared returns a launch that is saved into a directory that all hosts share.
func (s *site) withShared(spec launch.Spec, dir string, every time.Duration) launch.Spec {
	spec.Checkpoint = launch.Checkpoint{Directory: dir, Every: launch.Duration(every), Keep: 2}
	return spec
}

// daemonUser is an account of each Debian that owns nothing.
const daemonUser = 1

// launchAs submits a launch as another user, by the command, and returns its id.
func (s *site) launchAs(user uint32, spec launch.Spec) string {
	s.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.hosts[0].Shared(), "launch.json"), text, 0o644); err != nil {
		s.Fatal(err)
	}
	command := s.hosts[0].CLI(s.Context(), "launch", "--no-code", "--json", filepath.Join(hosts.SharedDir, "launch.json"))
	var problems strings.Builder
	command.Stderr = &problems
	said, err := command.As(user, user).Output()
	var launched []*api.Launch
	if err == nil {
		err = json.Unmarshal(said, &launched)
	}
	if err != nil || len(launched) != 1 {
		s.Fatalf("launch: %v: %s%s", err, said, problems.String())
	}
	return launched[0].GetId()
}

// TestDrain: a drained host's launch goes on at another one, by a directory that they share, with
// the rights of its owner.
func TestDrain(t *testing.T) {
	s := newSite(t, 2, 1)
	dir, images := s.share("witness"), s.share("images")
	id := s.launchAs(daemonUser, s.withShared(s.counting(dir), images, 0))
	from := s.awaitRunning(id).GetReplicas()[0].GetNode()
	s.awaitSteps(id, 1, 0)
	yes := true
	if _, err := s.cluster.ChangeNode(t.Context(), &api.ChangeNodeRequest{Name: from, Draining: &yes}); err != nil {
		t.Fatal(err)
	}
	s.awaitMoved(id, from)
	_, last := s.steps(id, 1)
	s.awaitSteps(id, 2, last)
	s.continues(id, 2)
	s.finish(id, dir)
}

// TestImagesGo: what a launch has saved is removed once it has completed. Its process is a shell
// with a program that uses the GPU.
func TestImagesGo(t *testing.T) {
	s := newSite(t, 1, 1)
	dir, images := s.share("witness"), s.share("images")
	spec := s.withShared(s.counting(dir), images, time.Second)
	command := &spec.Jobs[0].Processes[0].Command
	*command = []string{"/bin/sh", "-c", strings.Join(*command, " ") + "; test $? = 7 && echo all is well"}
	id := s.launch(spec)
	s.awaitRunning(id)
	harness.Eventually(t, "an image was taken", func() bool { return len(s.get(id).GetImages()) >= 1 })
	s.suspend(id)
	s.resume(id)
	s.awaitRunning(id)
	s.release(dir)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("got %s: %s", got.GetResult(), got.GetReason())
	}
	if text := s.logs(id); !strings.HasSuffix(text, "all is well\n") {
		t.Errorf("the log ends with %q", text[max(0, len(text)-200):])
	}
	harness.Eventually(t, "its images are removed", func() bool {
		left, err := os.ReadDir(filepath.Join(s.hosts[0].Shared(), filepath.Base(images)))
		return err == nil && len(left) == 0
	})
}

// TestAgentDiesDuringSave: an agent that is killed while a launch is saved does not lose what
// comes of that.
func TestAgentDiesDuringSave(t *testing.T) {
	s := newSite(t, 1, 1)
	dir := s.share("witness")
	id := s.launch(s.counting(dir))
	s.awaitRunning(id)
	s.awaitSteps(id, 1, 0)
	if _, err := s.launches.Suspend(t.Context(), &api.ActRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	s.agents[0].Kill()
	s.agents[0].Start()
	s.await(id, "suspended")
	_, last := s.steps(id, 1)
	s.resume(id)
	s.awaitRunning(id)
	s.awaitSteps(id, 2, last)
	s.continues(id, 2)
	s.finish(id, dir)
}

// TestPhosdDies: a restored launch goes on while phosd is killed, and its exit status is known to
// the next phosd.
func TestPhosdDies(t *testing.T) {
	s := newSite(t, 1, 1)
	dir := s.share("witness")
	id := s.launch(s.counting(dir))
	s.awaitRunning(id)
	s.awaitSteps(id, 1, 0)
	s.suspend(id)
	_, last := s.steps(id, 1)
	s.resume(id)
	s.awaitRunning(id)
	s.awaitSteps(id, 2, last)
	s.phosds[0].Kill()
	_, last = s.steps(id, 2)
	s.awaitSteps(id, 2, last)
	s.phosds[0].Start()
	s.continues(id, 2)
	s.finish(id, dir)
}

// TestSavedHostDies: a launch whose host dies goes on at another one from its last image, and loses
// only what it has done since.
func TestSavedHostDies(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSite(t, 3, 1)
	dir, images := s.share("witness"), s.share("images")
	spec := s.withShared(s.counting(dir), images, time.Second)
	spec.Place.Hostnames = []string{"node2", "node3"} // the controller is on the other one
	id := s.launch(spec)
	victim := s.host(s.awaitRunning(id).GetReplicas()[0].GetNode())
	harness.Eventually(t, "two images were taken", func() bool { return len(s.get(id).GetImages()) >= 2 })
	victim.Kill()
	s.awaitMoved(id, victim.Name)
	s.awaitSteps(id, 2, 0)
	if first, _ := s.steps(id, 2); first <= 0 {
		t.Errorf("it begins with step %d", first)
	}
	s.keepsOnly(filepath.Join(s.hosts[0].Shared(), filepath.Base(images)), id, 2)
	s.finish(id, dir)
	if kinds := s.events(id); !slices.Contains(kinds, "node gone") {
		t.Errorf("the events are %q", kinds)
	}
	if _, err := os.Stat(filepath.Join(s.hosts[0].Shared(), filepath.Base(images), id+".0.2")); err != nil {
		t.Errorf("a failed launch keeps its images: %v", err)
	}
}

// TestPreempted: a more urgent launch takes the GPU of another one, which goes on afterwards.
func TestPreempted(t *testing.T) {
	s := newSiteWith(t, shape{hosts: 1, controllers: 1, gpus: 1}, settings+"[scheduler]\npreemptive_priority = true\n")
	dir := s.share("witness")
	id := s.launch(s.counting(dir))
	s.awaitRunning(id)
	s.awaitSteps(id, 1, 0)
	urgent := shell("sleep 0.1", 1, 1)
	urgent.Priority = 10
	if got := s.await(s.launch(urgent), "ended"); got.GetResult() != "completed" {
		t.Errorf("the urgent launch: %s: %s", got.GetResult(), got.GetReason())
	}
	s.awaitRunning(id)
	_, last := s.steps(id, 1)
	s.awaitSteps(id, 2, last)
	s.continues(id, 2)
	s.finish(id, dir)
}
