package cluster

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// backupFile is on a host's own disk.
const backupFile = "/var/lib/backup"

// fenceAfter is the line of the settings that TestBackup needs another value in.
var fenceAfter = regexp.MustCompile(`fence_after = "[^"]*"`)

// TestBackup: a controller that has lost its store goes on from a backup. Nodes and users are
// known, what runs goes on, and what was created after the backup is stopped.
func TestBackup(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 1, controllers: 1, gpus: 2}, fenceAfter.ReplaceAllString(settings, `fence_after = "5m"`))
	first := s.hosts[0]
	controller := filepath.Join(harness.Bin(), "phos-controller")
	s.invite("add", "ada")
	kept := s.launch(shell("sleep 1000", 1, 1))
	s.awaitRunning(kept)
	if said := first.Run(controller, "--backup", backupFile); !strings.Contains(said, "saved") {
		t.Errorf("backup says: %s", said)
	}
	if mode := strings.TrimSpace(first.Run("stat", "-c", "%a", backupFile)); mode != "600" {
		t.Errorf("the mode of the backup is %s", mode)
	}
	late := s.launch(shell("exec sleep 2000", 1, 0))
	s.awaitRunning(late)

	if _, err := first.Command(t.Context(), controller, "--restore", backupFile).CombinedOutput(); err == nil {
		t.Error("a store was restored over another one")
	}
	s.controllers[0].Kill()
	first.Shell("mv /var/lib/phos-controller/etcd /var/lib/lost; cp " + backupFile + " " + backupFile + ".cut; truncate -s -512 " + backupFile + ".cut")
	said, err := first.Command(t.Context(), controller, "--restore", backupFile+".cut").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "hash") {
		t.Errorf("half a backup: %v: %s", err, said)
	}
	if said, err := first.Command(t.Context(), controller, "--backup", backupFile+".none").CombinedOutput(); err == nil ||
		!strings.Contains(string(said), "a controller must run here") {
		t.Errorf("a backup of nothing: %v: %s", err, said)
	}
	first.Run(controller, "--restore", backupFile)
	s.controllers[0].Start()
	s.awaitNodes(1)

	if got := s.awaitRunning(kept).GetReplicas()[0]; got.GetAttempt() != 1 {
		t.Errorf("what ran is in attempt %d", got.GetAttempt())
	}
	if s.get(late) != nil {
		t.Error("a launch from after the backup is known")
	}
	harness.Eventually(t, "what is unknown was stopped", func() bool {
		return strings.TrimSpace(first.Shell("pgrep -fc '[s]leep 2000' || true")) == "0"
	})
	if said := first.RunCLI("user", "list"); !strings.Contains(said, "ada") {
		t.Errorf("user list says: %s", said)
	}
	if reply := sure(s, s.launches.List, &api.ListRequest{}); len(reply.GetLaunches()) != 1 {
		t.Errorf("launches %v", reply.GetLaunches())
	}
	s.stop(kept)
	s.await(s.launch(shell("true", 1, 2)), "ended")
}
