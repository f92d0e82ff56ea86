package agent

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestOlderEpoch: an agent that has had an order of an epoch follows none of an older one, also
// after a restart.
func TestOlderEpoch(t *testing.T) {
	n := newNode(t)
	_, stop := n.run()
	s := n.attached().welcome(7, hour, hour)
	s.order(&api.Orders{Epoch: 7, Complete: true, Orders: []*api.Order{n.shell("a", forEver)}})
	s.inState(one("a"), "running")
	s.drop()

	refuses := func() {
		t.Helper()
		s := n.attached().welcome(6, hour, hour)
		if s.hello.GetEpoch() != 7 {
			t.Errorf("it has followed epoch %d", s.hello.GetEpoch())
		}
		s.order(&api.Orders{Epoch: 6, Complete: true, Orders: []*api.Order{n.shell("b", forEver)}})
		s.awaitGone()
	}
	refuses()
	stop()
	_, _ = n.run()
	refuses()

	s = n.attached().welcome(7, hour, hour)
	// What comes after shows that the order was not followed late.
	s.order(&api.Orders{Epoch: 7, Orders: []*api.Order{n.shell("c", forEver)}})
	s.inState(one("c"), "running")
	for _, held := range s.hello.GetHeld() {
		if held.GetLaunch() != "a" || held.GetState() != "running" {
			t.Errorf("it holds %v", held)
		}
	}
	if found := n.marked(); len(found) != 2 {
		t.Errorf("%d processes run, want those of a and c", len(found))
	}
}

// TestReportedAgain: the end of an attempt is told to each leader, until one lets the attempt go.
func TestReportedAgain(t *testing.T) {
	n := newNode(t)
	n.run()
	gate := filepath.Join(t.TempDir(), "gate")
	s := n.attached().welcome(1, hour, hour)
	s.order(&api.Orders{Epoch: 1, Complete: true, Orders: []*api.Order{
		n.shell("a", "until [ -e "+gate+" ]; do sleep 0.02; done; exit 3"),
	}})
	s.inState(one("a"), "running")
	s.drop()
	writeFile(t, gate)
	harness.Eventually(t, "the process ends while no leader listens", func() bool { return len(n.marked()) == 0 })
	for range 2 {
		s = n.attached().welcome(1, hour, hour)
		ended := s.inState(one("a"), "ended")
		if exits := ended.GetExits(); len(exits) != 1 || exits[0].GetCode() != 3 {
			t.Errorf("it has ended with %v", exits)
		}
		s.drop()
	}
	s = n.attached().welcome(1, hour, hour)
	if held := s.hello.GetHeld(); len(held) != 1 || held[0].GetState() != "ended" {
		t.Errorf("it holds %v", held)
	}
	s.order(&api.Orders{Epoch: 1, Released: []*api.Attempt{one("a")}})
	work := filepath.Join(n.state, "work", keyOf(one("a")).String())
	harness.Eventually(t, "the working directory is removed", func() bool {
		_, err := os.Stat(work)
		return os.IsNotExist(err)
	})
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{n.shell("b", forEver)}})
	s.inState(one("b"), "running") // so that what is left of a has had its turn
	s.drop()
	s = n.attached()
	if held := s.hello.GetHeld(); len(held) != 1 || held[0].GetLaunch() != "b" {
		t.Errorf("after the release it holds %v", held)
	}
}

// TestLeaseRenewed: each renewal that the leader answers moves the deadline, by fence_after from
// when it was sent; one that it ignores does not.
func TestLeaseRenewed(t *testing.T) {
	n := newNode(t)
	a, _ := n.run()
	s := n.attached()
	s.ignores.Store(true)
	s.welcome(1, 100, hour)
	harness.Eventually(t, "the welcome renews the lease", func() bool { return a.newDeadline() > 0 })
	first, renewed := a.newDeadline(), a.Numbers().Renewed
	s.ignores.Store(false)
	harness.Eventually(t, "the deadline moves", func() bool {
		return a.newDeadline() > first && a.Numbers().Renewed.After(renewed)
	})
	s.drop()
	last := a.newDeadline()
	s = n.attached()
	if a.newDeadline() != last {
		t.Error("a leader that has not answered has renewed the lease")
	}
	s.ignores.Store(true)
	s.welcome(1, 100, 200) // a shorter time takes nothing back
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{n.shell("a", forEver)}})
	s.inState(one("a"), "running")
	if a.newDeadline() != last {
		t.Error("the deadline went back")
	}
}

// TestLeaseLost: processes are killed once no leader has renewed the lease for fence_after, and the
// next leader learns why.
func TestLeaseLost(t *testing.T) {
	n := newNode(t)
	n.run()
	s := n.attached()
	s.ignores.Store(true)
	s.order(&api.Orders{Epoch: 1}) // without a welcome there is no deadline
	s.welcome(1, 100, 2000)
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{n.shell("a", forEver)}})
	if ended := s.inState(one("a"), "ended"); !ended.GetFenced() {
		t.Errorf("it has ended with %v", ended)
	}
	if left := n.marked(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	s.drop()
	if held := n.attached().hello.GetHeld(); len(held) != 1 || !held[0].GetFenced() {
		t.Errorf("the next leader is told %v", held)
	}
}

// TestControllersTold: an agent looks for the next leader also at a controller that has come while
// it was attached.
func TestControllersTold(t *testing.T) {
	n, next := newNode(t), newLeader(t)
	n.run()
	s := n.attached().welcome(1, 1000, hour)
	s.send(&api.ToAgent{Message: &api.ToAgent_Controllers{Controllers: &api.Controllers{Addresses: []string{next.address}}}})
	s.drop()
	next.attached()
}

// TestSilentController: an agent leaves a controller that takes a connection and then says nothing
// for another one. The connections of tests wait for an hour.
func TestSilentController(t *testing.T) {
	n := newNode(t)
	silent := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	n.run()
	s := n.attached().welcome(1, 1000, hour)
	s.send(&api.ToAgent{Message: &api.ToAgent_Controllers{Controllers: &api.Controllers{Addresses: []string{silent, n.address}}}})
	s.drop()
	n.attached()
}

// TestSenselessLease: an agent leaves a leader whose times would kill what runs.
func TestSenselessLease(t *testing.T) {
	n := newNode(t)
	n.run()
	n.attached().welcome(1, 50, hour).awaitGone()
	n.attached().welcome(1, 2000, 1000).awaitGone()
	n.attached()
}

// TestAdopted: what runs outlives an agent that is killed. The next one has it, with the same
// processes, and can end it.
func TestAdopted(t *testing.T) {
	n := newNode(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	first := exec.Command(self, agentRole, n.state, n.address, n.phosd)
	first.Stderr = t.Output()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = first.Process.Kill()
		_ = first.Wait()
	}
	t.Cleanup(end)
	s := n.attached().welcome(1, hour, hour)
	s.order(&api.Orders{Epoch: 1, Complete: true, Orders: []*api.Order{n.shell("a", forEver)}})
	s.inState(one("a"), "running")
	before := n.marked()
	end()
	if err := os.Mkdir(filepath.Join(n.state, "attempts", "no-key"), 0o700); err != nil {
		t.Fatal(err)
	}

	n.run()
	s = n.attached().welcome(1, hour, hour)
	if got := s.inState(one("a"), "running"); got.GetStartedUnixMs() == 0 {
		t.Errorf("it is told as %v", got)
	}
	if now := n.marked(); len(before) != 1 || len(now) != 1 || now[0] != before[0] {
		t.Errorf("processes %v, and before %v", now, before)
	}
	order := n.shell("a", forEver)
	s.order(&api.Orders{Epoch: 1, Complete: true, Orders: []*api.Order{order}}) // it has it
	order.Do = string(launch.Stop)
	s.order(&api.Orders{Epoch: 1, Complete: true, Orders: []*api.Order{order}})
	if exits := s.inState(one("a"), "ended").GetExits(); len(exits) != 1 || !exits[0].GetStopped() {
		t.Errorf("it has ended with %v", exits)
	}
	if left := n.marked(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// TestStop: a stop ends all processes of an attempt, also those that ignore SIGTERM or have left
// the session.
func TestStop(t *testing.T) {
	n := newNode(t)
	n.run()
	dir := t.TempDir()
	s := n.attached().welcome(1, hour, hour)
	order := n.shell("a", "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo > "+dir+"/inner; while :; do sleep 1000; done' & "+
		"echo > "+dir+"/outer; while :; do sleep 1000; done")
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order, n.shell("b", forEver)}})
	s.inState(one("a"), "running")
	s.inState(one("b"), "running")
	harness.Eventually(t, "both ignore SIGTERM", func() bool {
		_, inner := os.Stat(filepath.Join(dir, "inner"))
		_, outer := os.Stat(filepath.Join(dir, "outer"))
		return inner == nil && outer == nil
	})
	order.Do, order.GraceMs = string(launch.Stop), 50
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	exits := s.inState(one("a"), "ended").GetExits()
	if len(exits) != 1 || !exits[0].GetStopped() || exits[0].GetSignal() != 9 {
		t.Errorf("it has ended with %v", exits)
	}
	if left := n.marked(); len(left) != 1 {
		t.Errorf("processes %v run, want that of b", left)
	}
	// One that was never started is stopped, too.
	order.Attempt = one("c")
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	if ended := s.inState(one("c"), "ended"); !ended.GetUnstarted() {
		t.Errorf("what was not started has ended as %v", ended)
	}
}

// TestUnlisted: a complete list of orders ends what it does not have, and removes what is left of
// launches that are over.
func TestUnlisted(t *testing.T) {
	n := newNode(t)
	n.run()
	s := n.attached().welcome(1, hour, hour)
	s.order(&api.Orders{Epoch: 1, Complete: true, Orders: []*api.Order{n.shell("a", forEver), n.shell("b", forEver)}})
	s.inState(one("a"), "running")
	s.inState(one("b"), "running")
	s.order(&api.Orders{Epoch: 1, Complete: true, Orders: []*api.Order{n.shell("b", forEver)}})
	harness.Eventually(t, "a has ended", func() bool {
		left, err := os.ReadDir(filepath.Join(n.state, "work"))
		return err == nil && len(n.marked()) == 1 && len(left) == 1 && left[0].Name() == "b.0.1"
	})
}

// TestRefusedOwner: an order that the node cannot follow is reported as its end, with the reason.
func TestRefusedOwner(t *testing.T) {
	n := newNode(t)
	n.run()
	s := n.attached().welcome(1, hour, hour)
	order := n.shell("a", "true")
	order.Owner = "no-such-account"
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	exits := s.inState(one("a"), "ended").GetExits()
	if len(exits) != 1 || exits[0].GetError() != ErrNoAccount.Error()+": no-such-account" {
		t.Errorf("it has ended with %v", exits)
	}
	if _, err := (&Agent{}).lookUp("root"); !errors.Is(err, ErrRoot) {
		t.Errorf("root: %v", err)
	}
}

// TestSupervisorLost: a process that has run, and whose end cannot be found out, is not reported as
// one that did not start.
func TestSupervisorLost(t *testing.T) {
	n := newNode(t)
	a, _ := n.run()
	s := n.attached().welcome(1, hour, hour)
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{n.shell("a", forEver)}})
	s.inState(one("a"), "running")
	attempt := a.attempts.find(keyOf(one("a"))).started()
	status, err := attempt.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The end cannot be noted where a folder has the name of the file.
	file := filepath.Join(attempt.Directory(), "status.json")
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(status.Supervisor.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exits := messages.ExitsOf(s.inState(one("a"), "ended").GetExits())
	if len(exits) != 1 || !strings.HasPrefix(exits[0].String(), "ended in an unknown way: its supervisor is lost: ") {
		t.Errorf("it has ended with %v", exits)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// TestOldLogs: logs of attempts stay for a time after the leader has let go of the attempts.
func TestOldLogs(t *testing.T) {
	n := newNode(t)
	a, _ := n.run()
	s := n.attached().welcome(1, hour, hour)
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{n.shell("a", "true"), n.shell("b", "true")}})
	s.inState(one("a"), "ended")
	s.inState(one("b"), "ended")
	s.order(&api.Orders{Epoch: 1, Released: []*api.Attempt{one("a")}})
	harness.Eventually(t, "a is released", func() bool { return a.attempts.find(keyOf(one("a"))) == nil })
	a.attempts.removeOld(time.Now().Add(-time.Hour))
	kept := func() int {
		keys, err := supervisor.List(filepath.Join(n.state, "attempts"))
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	if kept() != 2 {
		t.Error("a log was removed before its time")
	}
	a.attempts.removeOld(time.Now().Add(time.Hour))
	if kept() != 1 {
		t.Errorf("%d logs are kept, want that of the attempt that was not released", kept())
	}
}
