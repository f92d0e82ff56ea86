package phosd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
)

func TestProgramComesAndGoes(t *testing.T) {
	l := newLab(t, nil)
	p := l.run(nil)
	p.says("live 1")
	p.do("fds")
	p.says("sockets 0")
	l.eventually("the program is live", func() bool {
		programs := l.status().GetPrograms()
		return len(programs) == 1 && programs[0].GetDescription().GetLive()
	})
	if got := l.status().GetPrograms()[0].GetPid(); int(got) != p.Process.Pid {
		t.Errorf("pid %d, want %d", got, p.Process.Pid)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.empty()
}

func TestWorkerDies(t *testing.T) {
	l := newLab(t, nil)
	p := l.run(nil)
	p.says("live")
	worker := l.status().GetPrograms()[0].GetWorkerPid()
	if err := syscall.Kill(int(worker), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.do("dead?")
	p.says("dead")
	l.empty()
}

// TestDamagedRing checks that a program which damages its ring loses only its own session.
func TestDamagedRing(t *testing.T) {
	l := newLab(t, nil)
	bystander, attacker := l.run(nil), l.run(nil)
	bystander.says("live")
	attacker.says("live")
	attacker.do("damage")
	attacker.do("dead?")
	attacker.says("dead")
	l.eventually("only the bystander is left", func() bool {
		programs := l.status().GetPrograms()
		return len(programs) == 1 && int(programs[0].GetPid()) == bystander.Process.Pid
	})
}

func TestAdoption(t *testing.T) {
	for _, test := range []struct {
		name   string
		signal syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"ended", syscall.SIGTERM}} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, nil)
			stays, goes, orphan := l.run(nil), l.run(nil), l.run(nil)
			for _, p := range []*program{stays, goes, orphan} {
				p.says("live")
			}
			before, lost := l.programOf(stays), l.programOf(orphan)
			l.signal(test.signal)
			// While no phosd runs: one program ends, one loses its worker.
			if err := goes.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(int(lost.GetWorkerPid()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			l.start()
			orphan.do("dead?")
			orphan.says("dead")
			l.eventually("one program is adopted", func() bool {
				after := l.status().GetPrograms()
				return len(after) == 1 && after[0].GetDescription().GetLive() &&
					after[0].GetSession() == before.GetSession() && after[0].GetWorkerPid() == before.GetWorkerPid()
			})
			next := l.run(nil)
			if line := next.says("live"); line != "live 4" {
				t.Errorf("the next session: %s, want 4", line)
			}
			_ = stays.Process.Kill()
			_ = next.Process.Kill()
			l.empty()
		})
	}
}

func TestExecStartsAgain(t *testing.T) {
	l := newLab(t, nil)
	p := l.run(nil)
	p.says("live 1")
	p.do("exec")
	p.says("live 2")
	l.eventually("the old session is gone", func() bool {
		programs := l.status().GetPrograms()
		return len(programs) == 1 && programs[0].GetSession() == 2
	})
}

// TestExecOfSomethingElse checks that a session ends when its program executes one without CUDA:
// the cookie is gone from its memory.
func TestExecOfSomethingElse(t *testing.T) {
	l := newLab(t, nil)
	p := l.run(nil)
	p.says("live")
	p.do("sleep")
	l.empty()
	if err := p.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process itself: %v", err)
	}
}

func TestAnotherVersion(t *testing.T) {
	l := newLab(t, nil)
	p := l.run(func(command *exec.Cmd) { command.Env = append(command.Env, "PHOS_TEST_VERSION=1") })
	p.says("refused: CUDA_ERROR_SYSTEM_NOT_READY: another version: libphos.so speaks version")
	l.empty()
}

func TestUsers(t *testing.T) {
	const ordinary, other = 65534, 65533
	l := newLab(t, nil)
	first, second := l.run(asUser(ordinary)), l.run(asUser(other))
	first.says("live")
	second.says("live")
	l.eventually("root sees two programs", func() bool { return len(l.status().GetPrograms()) == 2 })
	for _, p := range l.status().GetPrograms() {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.GetWorkerPid()))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d\n", p.GetUid()), "Groups:\t \n",
			"NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n",
		} {
			if !strings.Contains(string(status), want) {
				t.Errorf("worker %d: status lacks %q:\n%s", p.GetWorkerPid(), want, status)
			}
		}
	}
	// The other user's files and control socket cannot be opened.
	session := fmt.Sprint(l.programOf(second).GetSession())
	paths, err := filepath.Glob(filepath.Join(l.settings.RuntimeDir, "sessions", session, "*"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("files of session %s: %v, %v", session, paths, err)
	}
	for _, path := range append(paths, filepath.Join(l.settings.RuntimeDir, "control", session+".sock"),
		filepath.Join(l.settings.RuntimeDir, "ledger")) {
		look := exec.Command("cat", path)
		asUser(ordinary)(look)
		if err := look.Run(); err == nil {
			t.Errorf("another user can read %s", path)
		}
	}
}

func TestQuota(t *testing.T) {
	const ordinary = 65534
	l := newLab(t, func(c *config.Config) { c.Sessions.ProgramsPerUser = 1 })
	first := l.run(asUser(ordinary))
	first.says("live")
	second := l.run(asUser(ordinary))
	second.says("refused: CUDA_ERROR_DEVICE_UNAVAILABLE: resources exhausted: sessions.programs_per_user: " +
		"this user may have 1 programs, and has 1")
	// Root and the next in line are served.
	l.run(nil).says("live")
	_ = first.Process.Kill()
	l.eventually("the place is free again", func() bool { return len(l.status().GetPrograms()) == 1 })
	l.run(asUser(ordinary)).says("live")
}

func TestFullTmpfs(t *testing.T) {
	l := newLab(t, func(c *config.Config) { c.Sessions.TmpfsSize = 9 << 20 })
	if warnings := l.status().GetDaemon().GetWarnings(); len(warnings) > 0 {
		t.Skip(warnings)
	}
	l.run(nil).says("live")
	l.run(nil).says("refused: CUDA_ERROR_OUT_OF_MEMORY: the memory for sessions is full")
}

func TestStop(t *testing.T) {
	l := newLab(t, nil)
	p := l.run(nil)
	p.says("live")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := l.client().Daemon.Stop(ctx, &api.StopRequest{})
	if !errors.Is(err, api.ErrProgramsRunning) || !strings.Contains(err.Error(), fmt.Sprint(p.Process.Pid)) {
		t.Errorf("stop while a program runs: %v", err)
	}
	reply, err := l.client().Daemon.Stop(ctx, &api.StopRequest{Force: true})
	if err != nil || len(reply.GetEnded()) != 1 {
		t.Fatalf("forced stop: %v, %v", reply, err)
	}
	p.do("dead?")
	p.says("dead")
	if err := l.process.Wait(); err != nil {
		t.Errorf("phosd ended with %v", err)
	}
	if _, err := api.Dial(l.settings.Socket); !errors.Is(err, api.ErrNoDaemon) {
		t.Errorf("after the stop: %v, want ErrNoDaemon", err)
	}
	if left, err := filepath.Glob(filepath.Join(l.settings.RuntimeDir, "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestStopRightAfter stops phosd right after a program: the rest of its session does not count as
// one.
func TestStopRightAfter(t *testing.T) {
	l := newLab(t, nil)
	p := l.run(nil)
	p.says("live")
	_ = p.Process.Kill()
	_ = p.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if reply, err := l.client().Daemon.Stop(ctx, &api.StopRequest{}); err != nil || len(reply.GetEnded()) > 0 {
		t.Errorf("stop: %v, %v", reply, err)
	}
}

func TestJobFile(t *testing.T) {
	l := newLab(t, nil)
	for _, test := range []struct {
		text, variable, job, told string
		fields                    bool // the error lists the fields
	}{
		{text: "job_name: digits\nlog_path: phos.log\n", job: "digits"},
		{text: "job_name: other\nlog_path: phos.log\n", variable: `{"job_name": "digits"}`, job: "digits"},
		{text: "job_name: digits\njob_nmae: x\n", told: "pos.yaml:2: job_nmae", fields: true},
		{text: "checkpoint: {dir: x, every: 10}\n", told: "pos.yaml:1: checkpoint.every"},
		{text: "", variable: "checkpoint: {dir: x, every: 10}", told: "PHOS_JOB:1: checkpoint.every"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "pos.yaml"), []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := l.run(func(command *exec.Cmd) {
			command.Dir = dir
			command.Env = append(command.Env, "RANK=2", "WORLD_SIZE=8", "PHOS_JOB="+test.variable)
		})
		if test.told != "" {
			p.says("told: " + test.told)
		}
		p.says("live")
		var programs []*api.Program
		l.eventually("phosd lists the program", func() bool { // its worker answers before phosd knows
			programs = l.status().GetPrograms()
			return len(programs) > 0 && programs[len(programs)-1].GetPid() == uint32(p.Process.Pid)
		})
		description := programs[len(programs)-1].GetDescription()
		if test.job != "" && description.GetJobName() != test.job {
			t.Errorf("job %q, want %q", description.GetJobName(), test.job)
		}
		if told := description.GetJobFileError(); !strings.HasPrefix(told, test.told) ||
			strings.HasSuffix(told, "on, restore})") != test.fields {
			t.Errorf("job file error %q, want %q, with the fields: %v", told, test.told, test.fields)
		}
		if description.GetRank() != 2 || description.GetWorldSize() != 8 {
			t.Errorf("rank %d of %d, want 2 of 8", description.GetRank(), description.GetWorldSize())
		}
		if test.job != "" {
			if text, err := os.ReadFile(filepath.Join(dir, "phos.log")); err != nil ||
				!strings.Contains(string(text), "program joined") {
				t.Errorf("log of the job: %q, %v", text, err)
			}
		}
	}
}
