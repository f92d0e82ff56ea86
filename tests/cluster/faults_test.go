package cluster

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestFaults: whatever dies, stands still or is cut off, at random moments under a stream of
// launches, with one controller and with three: each launch ends as it says, no process runs twice
// at once, no GPU has two owners, and nothing is left. FAULTS says how many things happen,
// FAULTS_SEED repeats a test.
func TestFaults(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, controllers := range []int{1, 3} {
		t.Run(strconv.Itoa(controllers), func(t *testing.T) {
			t.Parallel() // it waits most of the time
			count, seed := number(t, "FAULTS", 8), uint64(number(t, "FAULTS_SEED", int(rand.Uint32())))
			t.Logf("FAULTS=%d FAULTS_SEED=%d", count, seed)
			of := shape{hosts: 3, controllers: controllers, gpus: 2, disk: stormBytes, programs: otherBuild(t)}
			s := newStorm(newSiteWith(t, of, settings), seed)
			for range count {
				s.pass()
			}
			s.awaitNodes(len(s.hosts))
			s.check(s.settle())
		})
	}
}

// check checks what has become of all launches.
func (s *storm) check(all []*api.Launch) {
	s.Helper()
	whole := map[string]bool{}
	for _, each := range all {
		checkEnd(s.T, each)
		whole[each.GetId()] = s.restartsWhole(each)
	}
	s.checkNothingIsLeft()
	h := history{T: s.T, said: readTestimonies(s.T, s.records), standstills: s.standstills}
	h.check(whole)
	s.Logf("%d launches", len(all))
	if len(all) == 0 || len(h.said) == 0 {
		s.Error("nothing ran")
	}
}

// number returns the value of a variable.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// settle stops what lasts, waits until all launches have ended, and returns them.
func (s *storm) settle() (all []*api.Launch) {
	s.Helper()
	stopped := map[string]bool{}
	for deadline := time.Now().Add(2 * harness.Patience); ; time.Sleep(50 * time.Millisecond) {
		reply := sure(s.site, s.launches.List, &api.ListRequest{Ended: true})
		open := 0
		for _, each := range reply.GetLaunches() {
			if each.GetPhase() == "ended" {
				continue
			}
			open++
			if strings.HasPrefix(each.GetName(), "lasts") && !stopped[each.GetId()] && each.GetPhase() == "running" {
				_, err := s.launches.Stop(s.Context(), &api.ActRequest{Id: each.GetId()})
				stopped[each.GetId()] = err == nil
			}
		}
		if open == 0 {
			return reply.GetLaunches()
		}
		if time.Now().After(deadline) {
			s.Fatalf("%d launches do not end: %v", open, reply.GetLaunches())
		}
	}
}

// checkEnd checks that a launch has ended as its name says.
func checkEnd(t *testing.T, each *api.Launch) {
	t.Helper()
	fate, _, _ := strings.Cut(each.GetName(), "-")
	want := map[string]string{"completes": "completed", "recovers": "completed", "fails": "failed", "lasts": "stopped"}[fate]
	if each.GetResult() != want || fate == "fails" && each.GetStatus() != 3 {
		t.Errorf("launch %s is %s: %v", each.GetName(), each.GetResult(), each)
	}
}

// restartsWhole reports whether all replicas of a launch start again when one does.
func (s *storm) restartsWhole(each *api.Launch) bool {
	s.Helper()
	reply := sure(s.site, s.launches.Get, &api.GetRequest{Id: each.GetId()})
	return !strings.Contains(string(reply.GetSpec()), `"continue"`) && !strings.Contains(string(reply.GetSpec()), "..")
}

// checkNothingIsLeft checks that no process of a launch is there, and that no node holds anything.
func (s *storm) checkNothingIsLeft() {
	s.Helper()
	harness.Eventually(s.T, "the nodes hold nothing", func() bool {
		reply, err := s.cluster.ListNodes(s.Context(), &api.ListNodesRequest{})
		held := 0
		for _, n := range reply.GetNodes() {
			held += len(n.GetLaunches())
		}
		return err == nil && held == 0
	})
	for _, h := range s.hosts {
		for _, pid := range h.Processes() {
			// It fails for a process that has just ended.
			if path, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe")); err == nil &&
				filepath.Base(path) == "witness" {
				s.Errorf("process %d of a launch is left on %s", pid, h.Name)
			}
		}
	}
}
