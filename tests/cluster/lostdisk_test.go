package cluster

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// sharedBackup is a backup that all hosts see.
const sharedBackup = hosts.SharedDir + "/backup"

// controllerProgram is run with flags that do not serve.
func controllerProgram() string { return filepath.Join(harness.Bin(), "phos-controller") }

// refusesController runs a phos-controller that must fail, and say why.
func (s *site) refusesController(host int, why string, flags ...string) {
	s.Helper()
	said, err := s.hosts[host].Command(s.Context(), append([]string{controllerProgram()}, flags...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(said), why) {
		s.Errorf("phos-controller %q: %v: %s; want %q", flags, err, said, why)
	}
}

// leadsWithout kills one of three controllers: the other two go on, so both have all there is.
func (s *site) leadsWithout(killed int, id string) {
	s.Helper()
	s.controllers[killed].Kill()
	harness.Eventually(s.T, "the other two lead", func() bool { return s.get(id).GetPhase() == "running" })
}

// TestLostDisk: one of three controllers loses its disk, and comes back with an empty one. What
// runs does not notice, and another controller may be lost then.
func TestLostDisk(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 3, controllers: 3, gpus: 1}, fenceAfter.ReplaceAllString(settings, `fence_after = "5m"`))
	id := s.launch(shell("exec sleep 1000", 3, 1))
	s.awaitRunning(id)
	lost := (s.leader() + 1) % 3
	other := (lost + 1) % 3
	name := s.hosts[lost].Name
	s.refusesController(other, "its store answers", "--replace", name)
	s.refusesController(lost, "in use by another process", "--join")
	s.controllers[lost].Kill()
	s.refusesController(lost, "holds an etcd already", "--join")
	s.hosts[lost].Shell("rm -rf /var/lib/phos-controller/*")
	s.refusesController(other, "is this controller", "--replace", s.hosts[other].Name)
	s.refusesController(other, "does not have", "--replace", "nowhere")
	for range 2 { // as if the first one had not answered
		s.hosts[other].Run(controllerProgram(), "--replace", name)
	}
	s.hosts[lost].Run(controllerProgram(), "--join")
	s.controllers[lost].Start()
	s.leadsWithout(other, id)
	for i, r := range s.awaitRunning(id).GetReplicas() {
		if r.GetAttempt() != 1 {
			t.Errorf("replica %d is in attempt %d", i, r.GetAttempt())
		}
	}
}

// TestBackupOfPeers: three controllers have lost their stores, and go on from one backup.
func TestBackupOfPeers(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 3, controllers: 3, gpus: 1}, fenceAfter.ReplaceAllString(settings, `fence_after = "5m"`))
	id := s.launch(shell("exec sleep 1000", 3, 1))
	s.awaitRunning(id)
	s.hosts[1].Run(controllerProgram(), "--backup", backupFile)
	s.hosts[1].Shell("cp " + backupFile + " " + sharedBackup)
	late := s.launch(shell("exec sleep 1000", 1, 0))
	s.awaitRunning(late)
	for _, each := range s.controllers {
		each.Kill()
	}
	for _, h := range s.hosts {
		h.Shell("rm -rf /var/lib/phos-controller/*")
		h.Run(controllerProgram(), "--restore", sharedBackup)
	}
	for _, each := range s.controllers {
		each.Start()
	}
	s.awaitNodes(3)
	for i, r := range s.awaitRunning(id).GetReplicas() {
		if r.GetAttempt() != 1 {
			t.Errorf("replica %d is in attempt %d", i, r.GetAttempt())
		}
	}
	if s.get(late) != nil {
		t.Error("a launch from after the backup is known")
	}
	s.leadsWithout(s.leader(), id)
}
