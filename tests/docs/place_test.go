package docs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// place is the scratch copy of the machine in which the commands of one document run.
type place struct {
	t      *testing.T
	init   int // the first process there, by its pid here
	criu   string
	shells map[string]*shell
}

// newPlace makes a place where phos is not installed.
func newPlace(t *testing.T) *place {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	criu, err := harness.CRIU()
	harness.Need(t, "criu", err)
	for _, tool := range []string{"unshare", "nsenter", "pivot_root", "setsid", "setpriv", "python3"} {
		_, err := exec.LookPath(tool)
		harness.Need(t, "container", err)
	}
	root, err := os.MkdirTemp("/run", "phos-docs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(root) })
	command := exec.Command(
		"unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", harness.Path("tests/docs/testdata/place.sh"),
		root, harness.Path(), os.Getenv("PHOS_CACHE"), filepath.Dir(criu),
	)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		harness.Need(t, "container", fmt.Errorf("make a copy of this machine: %q: %w", line, err))
	}
	pid := harness.OnlyChild(t, command.Process.Pid)
	return &place{t: t, init: pid, criu: criu, shells: map[string]*shell{}}
}

// enter returns a command that runs there as a user: the next pid of the place is its own.
func (p *place) enter(user, script string) *exec.Cmd {
	home, ids := harness.Path(), []string{"--reuid=0", "--regid=0", "--clear-groups"}
	if user != "root" {
		home, ids = "/home/"+user, []string{"--reuid=" + user, "--regid=" + user, "--init-groups"}
	}
	arguments := append(
		[]string{"--target", strconv.Itoa(p.init), "--mount", "--pid", "--wdns=" + home, "setpriv"},
		ids...)
	command := exec.Command("nsenter", append(arguments, "setsid", "bash", "-c", script)...)
	// An installation takes the CRIU of the other tests, and builds none.
	prefix := filepath.Dir(filepath.Dir(p.criu))
	command.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "CRIU_PREFIX="+prefix, "XDG_CONFIG_HOME=/run/config")
	if user != "root" {
		command.Env = []string{"HOME=" + home, "USER=" + user, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}
	}
	return command
}

// TestPlaceLogin: the cluster that the user of the tests has logged in to is not known there.
func TestPlaceLogin(t *testing.T) {
	t.Setenv("HOME", "/tmp/home") // which is the place's own
	t.Setenv("XDG_CONFIG_HOME", "")
	said, err := newPlace(t).enter("root", `umask 077; mkdir -p ~/.config/phos; echo damaged >~/.config/phos/cluster.json
		exec `+harness.Path("bin/pos_cli")+` ps`).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "no phosd runs") {
		t.Errorf("%v: %s", err, said)
	}
}

// do runs a script there as root.
func (p *place) do(script string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), harness.Patience)
	defer cancel()
	command := p.enter("root", script)
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	said, err := command.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", script, err, said)
	}
	return strings.TrimSpace(string(said))
}

// typedPID is the pid of the program that the commands of the documents save.
const typedPID = "4711"

// haveProgram starts a training of alice with the pid of the documents, if there is none.
func (p *place) haveProgram() {
	p.t.Helper()
	state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/root/proc/%s/stat", p.init, typedPID))
	if len(state) > 0 && !bytes.Contains(state, []byte(") Z ")) {
		return
	}
	for range 20 {
		last, err := strconv.Atoi(typedPID)
		if err != nil {
			p.t.Fatal(err)
		}
		p.do(fmt.Sprintf("echo %d >/proc/sys/kernel/ns_last_pid", last-1))
		program := p.enter("alice", "echo $$; exec pos_cli run -- python3 train.py 100000")
		out, err := program.StdoutPipe()
		if err != nil {
			p.t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			p.t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if lines.Scan() && lines.Text() == typedPID && lines.Scan() { // the second is its first step
			go func() { _, _ = io.Copy(io.Discard, out); _ = program.Wait() }()
			return
		}
		// Another process was faster.
		_ = program.Process.Signal(syscall.SIGKILL)
		_ = program.Wait()
	}
	p.t.Fatal("no program gets the pid of the documents")
}

// shell is a shell of a user that gets one command after another.
type shell struct {
	user  string
	input io.Writer
	lines chan string // of standard output and error
}

// shell returns the shell of a user.
func (p *place) shell(user string) *shell {
	p.t.Helper()
	if s := p.shells[user]; s != nil {
		return s
	}
	command := p.enter(user, "exec bash")
	input, err := command.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, end, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	command.Stdout, command.Stderr = end, end
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	_ = end.Close()
	s := &shell{user: user, input: input, lines: make(chan string, 10000)}
	go func() {
		defer close(s.lines)
		for reader := bufio.NewReader(out); ; {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			s.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	p.t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait(); _ = out.Close() })
	p.shells[user] = s
	return s
}

// run runs a command in a user's shell, and returns its output and its status. What a program in
// the background prints in the meantime is part of the output.
func (p *place) run(user, text string) (output []string, status int) {
	p.t.Helper()
	s := p.shell(user)
	if strings.Contains(text, "--pid "+typedPID) {
		p.haveProgram()
	}
	if _, err := fmt.Fprintf(s.input, "{ %s\n} </dev/null\nprintf '\\n\\001%%s\\n' $?\n", text); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), harness.Patience)
	defer cancel()
	started := false
	background := strings.HasSuffix(strings.TrimSpace(strings.Split(text, " #")[0]), "&")
	status = -1
	for status < 0 || background && !started {
		select {
		case line, ok := <-s.lines:
			if !ok {
				p.t.Fatalf("%s: the shell has ended\n%s", text, strings.Join(output, "\n"))
			}
			output = append(output, line)
			started = started || strings.HasPrefix(line, "step ")
			var pid int
			if code, ok := strings.CutPrefix(line, "\x01"); ok {
				status, _ = strconv.Atoi(code)
				output = output[:len(output)-1]
			} else if _, err := fmt.Sscanf(line, "pid %d runs again", &pid); err == nil {
				defer p.endEarly(pid)()
			}
		case <-ctx.Done():
			p.t.Fatalf("%s: no end\n%s", text, strings.Join(output, "\n"))
		}
	}
	return output, status
}

// endEarly ends a training that would go on for long. The caller calls done when it has ended.
func (p *place) endEarly(pid int) (done func()) {
	p.t.Helper()
	dir := p.do(fmt.Sprintf("dir=$(readlink /proc/%d/cwd) && touch $dir/stop && echo $dir", pid))
	return func() { p.do("rm -f " + dir + "/stop") }
}
