package supervisor

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestSupervisorKilled: the kernel kills the processes of a supervisor that is killed, Wait kills
// what they have left, and says what has happened.
func TestSupervisorKilled(t *testing.T) {
	f := newFixture(
		t,
		"(setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' &); echo ready; sleep 1000",
		"exit 0",
	)
	f.start()
	f.says("0 out ready")
	f.eventually("process 1 ends", func() bool {
		status, err := f.Status(f.patient())
		return err == nil && len(status.Exits()) == 1
	})
	var status Status
	f.eventually("its end is recorded", func() bool {
		return readJSON(f.Directory(), statusName, &status) == nil && len(status.Exits()) == 1
	})
	waiting := make(chan error)
	go func() {
		_, err := f.Wait(f.patient())
		waiting <- err
	}()
	if err := unix.Kill(status.Supervisor.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.eventually("the kernel kills the process", func() bool { return status.Processes[0].Gone() })
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	got := f.end()
	f.expect(got, Lost, killed, succeeded)
	if _, again, err := Adopt(f.patient(), f.root, f.Key); err != nil || again.Reason != Lost || !again.Ended.Equal(got.Ended) {
		t.Errorf("adopted: %+v, %v", again, err)
	}
	if err := f.Extend(f.patient(), boottime.Now()); !errors.Is(err, ErrEnded) {
		t.Errorf("extend: %v", err)
	}
	r := f.Log(f.logEnd())
	defer r.Close()
	if _, err := r.Next(); err == nil || !r.Ended() {
		t.Errorf("the log has not ended: %v", err)
	}
}

// TestAgentKilled: the processes outlive their agent, and the next one adopts them.
func TestAgentKilled(t *testing.T) {
	f := newFixture(t, "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	agent := exec.Command(itself(t), "agent", f.root)
	agent.Stdin = strings.NewReader(f.specJSON())
	out, err := agent.StdoutPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	killed := errors.Join(agent.Process.Kill())
	if err := agent.Wait(); killed != nil || err == nil {
		t.Fatalf("kill the agent: %v, %v", killed, err)
	}
	keys, err := List(f.root)
	if err != nil || len(keys) != 1 || keys[0] != f.spec.Key {
		t.Fatalf("%v, %v", keys, err)
	}
	adopted, status, err := Adopt(f.patient(), f.root, keys[0])
	if err != nil {
		t.Fatal(err)
	}
	f.Attempt = adopted
	f.finishLater()
	f.says("0 out ready")
	if status.State == Ended || status.Supervisor.Check() != nil {
		t.Errorf("%+v", status)
	}
	if got, err := adopted.Spec(); err != nil || got.Processes[0].Command[2] != f.spec.Processes[0].Command[2] {
		t.Errorf("spec %+v, %v", got, err)
	}
	if err := adopted.Stop(f.patient(), f.spec.Grace); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Stopped, "ended with status 5, stopped")
}

// TestStartKilled: an agent that is killed before it has started a supervisor leaves a directory
// that the next one understands.
func TestStartKilled(t *testing.T) {
	f := newFixture(t, "exit 0")
	dir := filepath.Join(f.root, f.spec.Key.String())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, status, err := Adopt(f.patient(), f.root, f.spec.Key)
	if err != nil || status.Reason != Lost || status.State != Ended {
		t.Errorf("without an order: %+v, %v", status, err)
	}
	if err := os.Remove(filepath.Join(dir, statusName)); err != nil {
		t.Fatal(err)
	}
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]Reason{boot: Lost, "another": Rebooted} {
		o := order{Version: version, Spec: f.spec, Cgroup: parentCgroup + "/none", BootID: id}
		if err := writeJSON(dir, orderName, o, fast); err != nil {
			t.Fatal(err)
		}
		f.Attempt, status, err = Adopt(f.patient(), f.root, f.spec.Key)
		if err != nil || status.Reason != want || len(status.Exits()) != 1 || status.Exits()[0].OK() {
			t.Errorf("boot %s: %+v, %v", id, status, err)
		}
		if err := os.Remove(filepath.Join(dir, statusName)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Adopt(f.patient(), f.root, Key{"none", 0, 0}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no directory: %v", err)
	}
}

// TestRebooted: after a boot a process that has the pid of a supervisor is left alone.
func TestRebooted(t *testing.T) {
	f := newFixture(t, "sleep 1000")
	f.start()
	status := f.started()
	f.eventually("status recorded", func() bool {
		var recorded Status
		return readJSON(f.Directory(), statusName, &recorded) == nil && recorded.State == Running
	})
	if err := f.Kill(f.patient()); err != nil {
		t.Fatal(err)
	}
	f.end()
	f.eventually("the supervisor exits", status.Supervisor.Gone)
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	id, err := proc.Of(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	var o order
	if err := readJSON(f.Directory(), orderName, &o); err != nil {
		t.Fatal(err)
	}
	o.BootID, status.BootID, status.Supervisor = "another", "another", id
	status.Processes[0].Identity = id
	err = errors.Join(
		writeJSON(f.Directory(), orderName, o, fast), writeJSON(f.Directory(), statusName, status, fast),
	)
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := Adopt(f.patient(), f.root, f.Key)
	if err != nil || got.Reason != Rebooted || len(got.Exits()) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if id.Gone() {
		t.Error("the other process was ended")
	}
}

// TestImposter: a process that answers in the place of the supervisor is not believed.
func TestImposter(t *testing.T) {
	f := newFixture(t, "sleep 1000")
	f.start()
	var status Status
	f.eventually("status recorded", func() bool {
		return readJSON(f.Directory(), statusName, &status) == nil && status.State == Running
	})
	_, err := exchange(f.patient(), f.Directory(), proc.Identity{PID: os.Getpid()}, request{Do: askStatus})
	if !errors.Is(err, ErrImposter) {
		t.Errorf("%v", err)
	}
	if _, err := exchange(f.patient(), f.Directory(), status.Supervisor, request{Do: "unknown"}); !errors.Is(err, ErrRefused) {
		t.Errorf("unknown request: %v", err)
	}
}

// TestSupervisorTerminated: SIGTERM for a supervisor is an orderly stop.
func TestSupervisorTerminated(t *testing.T) {
	f := newFixture(t, "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	f.start()
	f.says("0 out ready")
	supervisor := f.started().Supervisor
	for _, signal := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM} {
		if err := unix.Kill(supervisor.PID, signal); err != nil {
			t.Fatal(err)
		}
	}
	f.expect(f.end(), Stopped, succeeded+", stopped")
}

// TestLostRace: many callers settle an attempt whose supervisor was killed at the same time.
func TestLostRace(t *testing.T) {
	f := newFixture(t, "trap '' TERM; echo ready; sleep 1000")
	f.start()
	f.says("0 out ready")
	supervisor := f.started().Supervisor
	const callers = 8
	results := make(chan Status, callers)
	for range callers {
		go func() {
			status, _ := f.Wait(context.WithoutCancel(f.Context()))
			results <- status
		}()
	}
	if err := unix.Kill(supervisor.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range callers {
		if got := <-results; got.Reason != Lost {
			t.Errorf("%+v", got)
		}
	}
	f.end()
}
