package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
)

// nodeWithPhosd returns a node with a phosd and an agent.
func nodeWithPhosd(t *testing.T) (*node, *harness.Daemon) {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	n := newNode(t)
	d := harness.Start(t)
	n.phosd = d.Socket
	n.run()
	return n, d
}

// counting returns the order to count on a GPU, until a file exists. The program ends with status 7
// then.
func (n *node) counting(launched, file string) *api.Order {
	n.T.Helper()
	program := harness.CompileC(n.T, true, harness.Workload("checkpoint", "count.c"))
	order := n.shell(launched, "")
	order.Processes[0].Command = [][]byte{[]byte(program), []byte("1000000"), []byte("5000"), []byte("2000"), []byte(file)}
	for _, each := range harness.ProgramVariables() {
		order.Processes[0].Environment = append(order.Processes[0].Environment, []byte(each))
	}
	order.Checkpoint = &api.CheckpointOrder{Keep: 2}
	return order
}

// counts waits until an attempt has printed some steps.
func (s *stage) counts(attempt *api.Attempt) {
	s.Helper()
	harness.Eventually(s.leader.T, keyOf(attempt).String()+" counts", func() bool {
		got := s.awaitAnswer(s.ask(logs(attempt, nil)))
		return len(got.lines) > 5
	})
}

// steps returns the first and the last step that an attempt has printed.
func (s *stage) steps(attempt *api.Attempt) (first, last int) {
	s.Helper()
	first, last = -1, -1
	for _, line := range s.awaitAnswer(s.ask(logs(attempt, nil))).lines {
		var number int
		if count, _ := fmt.Sscanf(string(line.GetText()), "step %d ", &number); count == 1 {
			if last = number; first < 0 {
				first = number
			}
		}
	}
	return first, last
}

// TestSaved: an ordered save ends the attempt with an image, and the next attempt goes on from
// there.
func TestSaved(t *testing.T) {
	n, _ := nodeWithPhosd(t)
	on := filepath.Join(t.TempDir(), "on")
	s := n.attached().welcome(1, hour, hour)
	order := n.counting("a", on)
	order.Checkpoint.EveryMs = 50
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	s.counts(one("a"))
	kept := s.reported("of a second image", func(r *api.Report) bool { return r.GetImage().GetGeneration() >= 2 })
	if kept.GetState() != "running" || kept.GetSaved() || kept.GetSaveError() != "" || kept.GetImage().GetNode() != "n1" {
		t.Errorf("by the policy: %v", kept)
	}
	order.Do, order.Save, order.Checkpoint.EveryMs = string(launch.Save), 1, 0
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	ended := s.inState(one("a"), "ended")
	image := ended.GetImage()
	if !ended.GetSaved() || ended.GetSave() != 1 || len(ended.GetExits()) != 0 || image.GetGeneration() <= kept.GetImage().GetGeneration() {
		t.Errorf("the end is %v", ended)
	}
	if left := n.marked(); len(left) > 0 {
		t.Errorf("saved processes run on: %v", left)
	}
	s.order(&api.Orders{Epoch: 1, Released: []*api.Attempt{one("a")}})

	next := n.counting("a", on)
	next.Attempt.Attempt, next.Image = 2, image
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{next}})
	s.inState(next.GetAttempt(), "running")
	s.counts(next.GetAttempt())
	_, last := s.steps(one("a"))
	if first, _ := s.steps(next.GetAttempt()); first != last+1 {
		t.Errorf("it goes on with step %d after step %d", first, last)
	}
	writeFile(t, on)
	if exits := s.inState(next.GetAttempt(), "ended").GetExits(); len(exits) != 1 || exits[0].GetCode() != 7 {
		t.Errorf("it has ended with %v", exits)
	}
}

// TestNotSaved: a save that fails is reported once, and the attempt runs on. A later order tries
// again.
func TestNotSaved(t *testing.T) {
	n, d := nodeWithPhosd(t)
	s := n.attached().welcome(1, hour, hour)
	order := n.counting("a", "/none")
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	s.inState(one("a"), "running")
	s.counts(one("a"))
	d.Relaunch(ckpt.FailpointsVariable + "=commit=error")
	order.Do, order.Save = string(launch.Save), 1
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	failed := func(save uint32) func(*api.Report) bool {
		return func(r *api.Report) bool { return r.GetSave() == save && r.GetSaveError() != "" }
	}
	if r := s.reported("of a save that has failed", failed(1)); r.GetState() != "running" || r.GetSaved() || r.GetImage() != nil {
		t.Errorf("it is told as %v", r)
	}
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}}) // no other save
	order.Save = 2
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	s.reported("of the second save", failed(2))
	s.mu.Lock()
	told := 0
	for _, r := range s.reports {
		if failed(1)(r) {
			told++
		}
	}
	s.mu.Unlock()
	if told != 1 {
		t.Errorf("the first failure is told %d times", told)
	}
	d.Relaunch()
	order.Save = 3
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	if ended := s.inState(one("a"), "ended"); !ended.GetSaved() || ended.GetSave() != 3 || ended.GetSaveError() != "" {
		t.Errorf("the end is %v", ended)
	}
}

// TestSavedTogether: two attempts that are to be saved at once are, one after the other. A stop
// gives up a save that has not been made.
func TestSavedTogether(t *testing.T) {
	n, d := nodeWithPhosd(t)
	d.NeedGPUs(t, 1)
	s := n.attached().welcome(1, hour, hour)
	orders := []*api.Order{n.counting("a", "/none"), n.counting("b", "/none"), n.counting("c", "/none")}
	s.order(&api.Orders{Epoch: 1, Orders: orders})
	for _, order := range orders {
		s.counts(order.GetAttempt())
	}
	gate := filepath.Join(t.TempDir(), "gate")
	d.Relaunch(ckpt.FailpointsVariable + "=freeze=until:" + gate)
	for _, order := range orders {
		order.Do, order.Save = string(launch.Save), 1
	}
	s.order(&api.Orders{Epoch: 1, Orders: orders})
	orders[2].Do = string(launch.Stop)
	s.order(&api.Orders{Epoch: 1, Orders: orders[2:]})
	if ended := s.inState(one("c"), "ended"); ended.GetSaved() || len(ended.GetExits()) != 1 || !ended.GetExits()[0].GetStopped() {
		t.Errorf("the stopped one has ended as %v", ended)
	}
	writeFile(t, gate)
	for _, name := range []string{"a", "b"} {
		if ended := s.inState(one(name), "ended"); !ended.GetSaved() || ended.GetImage().GetGeneration() != 1 {
			t.Errorf("%s has ended as %v", name, ended)
		}
	}
	left, err := os.ReadDir(filepath.Join(n.state, "images"))
	if err != nil || len(left) < 2 {
		t.Errorf("images %v, %v", left, err)
	}
}

// TestNotSavable: what cannot be saved runs on, and the report says why.
func TestNotSavable(t *testing.T) {
	n := newNode(t)
	n.run()
	s := n.attached().welcome(1, hour, hour)
	order := n.shell("a", forEver)
	order.Processes = append(order.Processes, order.Processes[0])
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order, n.shell("b", forEver)}})
	s.inState(one("a"), "running")
	s.inState(one("b"), "running")
	order.Do, order.Save = string(launch.Save), 1
	second := n.shell("b", forEver)
	second.Do, second.Save = string(launch.Save), 1
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order, second}})
	for name, want := range map[string]string{
		"a": "its 2 processes were started by an earlier phos, and not as one tree", "b": "phosd",
	} {
		r := s.reported("that "+name+" is not saved", func(r *api.Report) bool {
			return r.GetLaunch() == name && r.GetSave() == 1 && strings.Contains(r.GetSaveError(), want)
		})
		if r.GetState() != "running" {
			t.Errorf("%s: %v", name, r)
		}
	}
	if left := n.marked(); len(left) != 3 {
		t.Errorf("%d processes run, want 3", len(left))
	}
}
