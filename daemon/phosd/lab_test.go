package phosd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
)

// patience is how long a test waits for a condition.
const patience = 2 * time.Minute

// lab is one phosd and its runtime directory.
type lab struct {
	t        *testing.T
	settings config.Config
	process  *exec.Cmd
}

func newLab(t *testing.T, change func(*config.Config)) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: other users' processes, mounts")
	}
	dir, err := os.MkdirTemp("/run", "phos-test-")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, settings: config.Default()}
	l.settings.RuntimeDir, l.settings.Socket = dir, filepath.Join(dir, "phosd.sock")
	l.settings.StateDir = dir + "-lasting"
	l.settings.Log.Level = "debug"
	l.settings.Sessions.ArenaSize = 64 << 20
	if change != nil {
		change(&l.settings)
	}
	t.Cleanup(l.end)
	l.start()
	return l
}

func (l *lab) start() {
	l.t.Helper()
	text, err := json.Marshal(l.settings)
	if err != nil {
		l.t.Fatal(err)
	}
	l.process = exec.Command("/proc/self/exe")
	l.process.Env = append(os.Environ(), phosdRole+"="+string(text))
	log, err := os.OpenFile(filepath.Join(l.settings.RuntimeDir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	defer log.Close()
	l.process.Stderr = log
	out, err := l.process.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := l.process.Start(); err != nil {
		l.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		l.t.Fatalf("phosd says %q (%v)\n%s", line, err, l.log())
	}
}

func (l *lab) log() string {
	text, _ := os.ReadFile(filepath.Join(l.settings.RuntimeDir, "log"))
	return string(text)
}

func (l *lab) signal(signal syscall.Signal) {
	l.t.Helper()
	if err := l.process.Process.Signal(signal); err != nil {
		l.t.Fatal(err)
	}
	_ = l.process.Wait() // how it ended is seen by what it left
}

func (l *lab) end() {
	if l.t.Failed() {
		l.t.Log(l.log())
	}
	_ = l.process.Process.Kill()
	_ = l.process.Wait()
	for _, mounted := range []string{"sessions", "work"} {
		_ = unix.Unmount(filepath.Join(l.settings.RuntimeDir, mounted), unix.MNT_DETACH)
	}
	_ = os.RemoveAll(l.settings.RuntimeDir)
	_ = os.RemoveAll(l.settings.StateDir)
}

func (l *lab) client() *api.Client {
	l.t.Helper()
	client, err := api.Dial(l.settings.Socket)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (l *lab) status() *api.StatusReply {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	status, err := l.client().Daemon.Status(ctx, &api.StatusRequest{})
	if err != nil {
		l.t.Fatal(err)
	}
	return status
}

// programOf is what phosd says of a program.
func (l *lab) programOf(p *program) *api.Program {
	l.t.Helper()
	for _, found := range l.status().GetPrograms() {
		if int(found.GetPid()) == p.Process.Pid {
			return found
		}
	}
	l.t.Fatalf("phosd does not know pid %d", p.Process.Pid)
	return nil
}

func (l *lab) eventually(what string, holds func() bool) {
	l.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > patience {
			l.t.Fatalf("never: %s", what)
		}
	}
}

// empty waits until nothing is left of any session.
func (l *lab) empty() {
	l.t.Helper()
	l.eventually("all sessions are gone", func() bool { return len(l.status().GetPrograms()) == 0 })
	// A session whose program has ended is no longer listed while its files are removed.
	var left []string
	defer func() {
		if len(left) > 0 {
			l.t.Errorf("left behind: %q", left)
		}
	}()
	l.eventually("their files are gone", func() bool {
		left = l.files()
		return len(left) == 0
	})
}

// files lists the files of sessions.
func (l *lab) files() (found []string) {
	for _, sub := range []string{"sessions", "control", "state"} {
		entries, err := os.ReadDir(filepath.Join(l.settings.RuntimeDir, sub))
		if err != nil {
			l.t.Error(err)
		}
		for _, entry := range entries {
			found = append(found, sub+"/"+entry.Name())
		}
	}
	return found
}

// program is a process that plays a program.
type program struct {
	t *testing.T
	*exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// run starts a program; it may be changed before.
func (l *lab) run(change func(*exec.Cmd)) *program {
	l.t.Helper()
	p := &program{t: l.t, Cmd: exec.Command("/proc/self/exe")}
	p.Env = append(os.Environ(), programRole+"="+l.settings.Socket)
	p.Stderr, p.Dir = os.Stderr, "/"
	if change != nil {
		change(p.Cmd)
	}
	var err error
	if p.input, err = p.StdinPipe(); err != nil {
		l.t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	p.output = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

func (p *program) says(want string) string {
	p.t.Helper()
	// Its output ends with it, so that a test does not hang.
	impatient := time.AfterFunc(patience, func() { _ = p.Process.Kill() })
	defer impatient.Stop()
	line, err := p.output.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		p.t.Fatalf("the program says %q (%v), want %q", line, err, want)
	}
	return strings.TrimSpace(line)
}

func (p *program) do(what string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.input, what); err != nil {
		p.t.Fatal(err)
	}
}

func asUser(uid uint32) func(*exec.Cmd) {
	return func(command *exec.Cmd) {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
}
