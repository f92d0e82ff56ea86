package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// subject is a launch of two replicas, one of them on a host without a controller.
type subject struct {
	*site
	id string
	// far is the process there, as phos exec takes it, and host that host.
	far  string
	host *hosts.Host
}

// newSubject starts a cluster of two hosts, and a launch of a script on both.
func newSubject(t *testing.T, script string) *subject {
	t.Helper()
	s := newSite(t, 2, 1)
	id := s.launch(shell(script, 2, 1))
	e := &subject{site: s, id: id, host: s.hosts[1]}
	for _, r := range s.awaitRunning(id).GetReplicas() {
		if r.GetNode() == e.host.Name {
			e.far = fmt.Sprintf("%s/main.%d", id, r.GetIndex())
		}
	}
	return e
}

// exec prepares a phos exec on the controller's host.
func (e *subject) exec(arguments ...string) *hosts.Command {
	return e.hosts[0].CLI(e.Context(), append([]string{"exec"}, arguments...)...)
}

// answer is what a command has printed, and its exit status.
type answer struct {
	out, complaint string
	status         int
}

// said runs a phos exec to its end.
func (e *subject) said(input []byte, arguments ...string) answer {
	e.Helper()
	command := e.exec(arguments...)
	var out, complaint bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &out, &complaint
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		e.Fatal(err)
	}
	return answer{out.String(), complaint.String(), command.ProcessState.ExitCode()}
}

// hanging is a phos exec of a tree that does not end by itself.
type hanging struct {
	*hosts.Command
	complaint bytes.Buffer
}

// tree is a command whose children ignore what asks them to end.
const tree = "(trap '' TERM HUP INT; exec -a left sleep 1000) & (setsid bash -c 'exec -a left sleep 1000' &) ; echo ready; exec -a left sleep 1000"

// hang starts a tree beside the far process.
func (e *subject) hang() *hanging {
	e.Helper()
	h := &hanging{Command: e.exec(e.far, "--", "bash", "-c", tree)}
	out, err := h.StdoutPipe()
	h.Stderr = &h.complaint
	if err == nil {
		err = h.Start()
	}
	if err != nil {
		e.Fatal(err)
	}
	said := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "ready\n" {
		e.Fatalf("the tree says %q, %v", said, err)
	}
	return h
}

// left lists what is left of trees on the far host.
func (e *subject) left() (found []string) {
	for _, pid := range e.host.Processes() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasPrefix(string(text), "left\x00") {
			found = append(found, fmt.Sprint(pid))
		}
	}
	return found
}

// gone waits until nothing is left of trees.
func (e *subject) gone(after string) {
	e.Helper()
	harness.Eventually(e.T, "nothing is left after "+after, func() bool { return len(e.left()) == 0 })
}

// TestExec: a command beside a process of another node has that process's place, and its streams
// and its status are those of phos exec.
func TestExec(t *testing.T) {
	const place = "env | grep -v -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort; pwd; id; cat /proc/self/oom_score_adj; hostname"
	e := newSubject(t, "("+place+"); exec sleep 1000")
	var want string
	harness.Eventually(t, "the process says where it is", func() bool {
		want = e.logs(e.far)
		return strings.HasSuffix(want, "\n"+e.host.Name+"\n")
	})
	if got := e.said(nil, e.far, "--", "sh", "-c", place); got != (answer{out: want}) {
		t.Errorf("the command has %+v\nand its process\n%s", got, want)
	}
	if !strings.Contains(want, "CUDA_VISIBLE_DEVICES=0\n") {
		t.Errorf("the process has no GPU:\n%s", want)
	}
	data := make([]byte, 3<<20)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	if got := e.said(data, "-i", e.far, "--", "sh", "-c", "cat; echo wrong >&2; exit 7"); got != (answer{string(data), "wrong\n", 7}) {
		t.Errorf("%d bytes, %q, status %d", len(got.out), got.complaint, got.status)
	}
	hostile := "\xff\xfe\x1b]0;x\x07\n$(reboot)`'\""
	if got := e.said(nil, e.far, "--", "printf", "%s", hostile); got != (answer{out: hostile}) {
		t.Errorf("%q became %+v", hostile, got)
	}
	for _, each := range []struct {
		says   string
		status int
		words  []string
	}{
		{"", 128 + 9, []string{e.far, "--", "sh", "-c", "kill -KILL $$"}},
		{"there is no program no-such-program", 127, []string{e.far, "no-such-program"}},
		{"is a directory", 126, []string{e.far, "/etc"}},
		{"2 processes of launch 1 run; name one: " + e.id + "/main.0.0, " + e.id + "/main.1.0", 255, []string{e.id, "true"}},
		{"job main has 1 processes", 255, []string{e.id + "/main.0.1", "true"}},
		{"has no replica", 255, []string{e.id + "/other", "true"}},
		{"no such launch", 255, []string{"\x1b[2Jnone", "true"}},
		{"at most 65536 can be sent", 255, []string{e.far, strings.Repeat("x", 70<<10)}},
		{"phos exec ID -- CMD", 2, []string{e.far}},
	} {
		got := e.said(nil, each.words...)
		if got.status != each.status || !strings.Contains(got.complaint, each.says) || strings.Contains(got.complaint, "\x1b") {
			t.Errorf("%.80q: status %d, %q; want %d, %q", each.words, got.status, got.complaint, each.status, each.says)
		}
	}
	e.hosts[0].RunCLI("stop", e.id)
	e.await(e.id, "ended")
	if got := e.said(nil, e.id, "true"); got.status != 255 || !strings.Contains(got.complaint, "is ended: nothing runs there") {
		t.Errorf("after the end: %+v", got)
	}
}

// TestExecEnds: whatever ends, nothing is left on the node, and the user is told.
func TestExecEnds(t *testing.T) {
	t.Parallel() // it waits most of the time
	e := newSubject(t, "trap '' TERM; while test ! -e /tmp/go; do sleep 0.05; done")
	h := e.hang()
	if err := h.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	e.gone("the client was killed")

	h = e.hang()
	if err := h.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _ = h.Wait(); h.ProcessState.ExitCode() != 128+int(syscall.SIGINT) {
		t.Errorf("interrupted: status %d: %s", h.ProcessState.ExitCode(), h.complaint.String())
	}
	e.gone("it was interrupted")

	h = e.hang()
	e.agents[1].Kill()
	e.ends(h, "its agent is gone")
	e.gone("the agent was killed")
	e.agents[1].Start()
	harness.Eventually(t, "the next agent runs commands", func() bool {
		return e.said(nil, e.far, "true") == answer{}
	})

	h = e.hang()
	e.controllers[0].Kill()
	e.ends(h, "the connection to the cluster was lost", "the command was killed")
	e.gone("the controller was killed")
	e.controllers[0].Start()
	harness.Eventually(t, "the next controller runs commands", func() bool {
		return e.said(nil, e.far, "true") == answer{}
	})

	h = e.hang()
	e.host.Run("touch", "/tmp/go")
	if _ = h.Wait(); !strings.Contains(h.complaint.String(), "the process has ended") {
		t.Errorf("the process ended: status %d: %s", h.ProcessState.ExitCode(), h.complaint.String())
	}
	e.gone("the process has ended")
}

// ends checks that a phos exec ends by itself, with a reason.
func (e *subject) ends(h *hanging, reasons ...string) {
	e.Helper()
	_ = h.Wait()
	for _, each := range reasons {
		if !strings.Contains(h.complaint.String(), each) || h.ProcessState.ExitCode() != 255 {
			e.Errorf("status %d: %s; want 255, %s", h.ProcessState.ExitCode(), h.complaint.String(), each)
		}
	}
}

// TestExecSlowReader: a command whose output is not read waits, with little on its way, and holds
// up nothing else. All of it arrives once it is read. Input that is not read holds up no signal.
func TestExecSlowReader(t *testing.T) {
	e := newSubject(t, "exec sleep 1000")
	const all = 10 << 20
	command := e.exec(e.far, "--", "sh", "-c", fmt.Sprintf("head -c %d /dev/zero; touch /tmp/written", all))
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 5 { // others go on
		if got := e.said([]byte("x"), "-i", e.far, "cat"); got != (answer{out: "x"}) {
			t.Errorf("meanwhile: %+v", got)
		}
	}
	if _, err := os.Stat(e.host.Path("/tmp/written")); err == nil {
		t.Errorf("%d bytes are on their way to a reader that reads nothing", all)
	}
	rest, err := io.Copy(io.Discard, out)
	if err := errors.Join(err, command.Wait()); err != nil || rest != all-1 {
		t.Errorf("%d of %d bytes: %v", rest, all-1, err)
	}
	// Nothing reads this input, and a signal arrives all the same.
	blocked := e.exec("-i", e.far, "--", "sh", "-c", "echo ready; exec sleep 1000")
	blocked.Stdin = bytes.NewReader(make([]byte, all))
	if out, err = blocked.StdoutPipe(); err == nil {
		err = blocked.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := blocked.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _ = blocked.Wait(); blocked.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("with input that is not read: status %d", blocked.ProcessState.ExitCode())
	}
}

// TestExecForbidden: users reach processes of their own launches only, and never become root unless
// they may.
func TestExecForbidden(t *testing.T) {
	s := newSite(t, 2, 1)
	away := s.hosts[1]
	roots := s.launch(shell("exec sleep 1000", 1, 0))
	s.awaitRunning(roots)
	enter := func(name string, flags ...string) {
		token, login := s.invite(append([]string{"add", name}, flags...)...)
		s.write(away, awayHome+"/"+name, token+"\n")
		s.accept(away, append(login, "--token-file", awayHome+"/"+name)...)
	}
	enter("ada", "--account", "nobody")
	if said := s.refuse(away, "exec", roots, "id"); !strings.Contains(said, "no such launch") {
		t.Errorf("into another user's launch: %s", said)
	}
	s.accept(away, "launch", "--no-code", "--name", "own", "--", "sleep", "1000")
	s.awaitRunning("own")
	if said := s.accept(away, "exec", "own", "--", "id", "-un"); said != "nobody\n" {
		t.Errorf("the command ran as %s", said)
	}
	enter("eve", "--account", "games", "--role", "viewer")
	if said := s.refuse(away, "exec", "own", "id"); !strings.Contains(said, "not allowed") {
		t.Errorf("a viewer: %s", said)
	}
	enter("bob", "--account", "games", "--role", "admin")
	if said := s.refuse(away, "exec", roots, "id"); !strings.Contains(said, "may not run as root") {
		t.Errorf("an administrator who may not be root: %s", said)
	}
	if said := s.accept(away, "exec", "own", "--", "id", "-un"); said != "nobody\n" {
		t.Errorf("the administrator's command ran as %s", said)
	}
}

// TestExecRestored: a save does not mind a command, and one beside a restored process has what that
// process had from the start.
func TestExecRestored(t *testing.T) {
	s := newSite(t, 1, 1)
	dir := s.share("witness")
	id := s.launch(s.counting(dir))
	s.awaitRunning(id)
	s.awaitSteps(id, 1, 0)
	e := &subject{site: s, id: id, far: id, host: s.hosts[0]}
	place := []string{id, "--", "sh", "-c", "env | grep -v -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort; pwd; id"}
	want := e.said(nil, place...)
	if !strings.Contains(want.out, "PHOS_LAUNCH_ID="+id) {
		t.Fatalf("before: %+v", want)
	}
	h := e.hang()
	s.suspend(id)
	// Its process ends, and with it the attempt: either may be the reason.
	if _ = h.Wait(); !strings.HasSuffix(strings.TrimSpace(h.complaint.String()), " has ended") {
		t.Errorf("saved and stopped: status %d: %s", h.ProcessState.ExitCode(), h.complaint.String())
	}
	e.gone("the process was saved and stopped")
	s.resume(id)
	s.awaitRunning(id)
	s.awaitSteps(id, 2, 0)
	if got := e.said(nil, place...); got != want {
		t.Errorf("beside the restored process: %+v, and before %+v", got, want)
	}
	s.continues(id, 2)
	s.finish(id, dir)
}

// TestExecProtocol: a client that does not keep to the protocol is refused, or ends its own command
// and nothing else.
func TestExecProtocol(t *testing.T) {
	e := newSubject(t, "exec sleep 1000")
	start := func(command ...string) *api.ExecRequest {
		of := &api.ExecStart{What: e.far}
		for _, word := range command {
			of.Command = append(of.Command, []byte(word))
		}
		return &api.ExecRequest{Message: &api.ExecRequest_Start{Start: of}}
	}
	input := func(bytes int) *api.ExecRequest {
		return &api.ExecRequest{Message: &api.ExecRequest_Input{Input: make([]byte, bytes)}}
	}
	signal := &api.ExecRequest{Message: &api.ExecRequest_Signal{Signal: -1 << 31}}
	size := &api.ExecRequest{Message: &api.ExecRequest_Size{Size: &api.WindowSize{Rows: 1 << 31}}}
	for name, each := range map[string]struct {
		requests []*api.ExecRequest
		want     error
		end      *api.ExecEnd
	}{
		"no start":    {[]*api.ExecRequest{input(1)}, api.ErrInvalid, nil},
		"two starts":  {[]*api.ExecRequest{start("sleep", "1000"), start("sleep", "1000")}, api.ErrInvalid, nil},
		"no command":  {[]*api.ExecRequest{start()}, api.ErrInvalid, nil},
		"NUL":         {[]*api.ExecRequest{start("a\x00b")}, nil, &api.ExecEnd{Code: 126}},
		"too much":    {[]*api.ExecRequest{start("sleep", "1000"), input(3 << 20)}, nil, &api.ExecEnd{Signal: 9}},
		"odd numbers": {[]*api.ExecRequest{start("sh", "-c", "sleep 0.1; exit 5"), signal, size}, nil, &api.ExecEnd{Code: 5}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := e.launches.Exec(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range each.requests {
			_ = stream.Send(request) // Recv has the reason
		}
		var end *api.ExecEnd
		for err == nil && end == nil {
			var reply *api.ExecReply
			reply, err = stream.Recv()
			end = reply.GetEnd()
		}
		if !errors.Is(api.FromStatus(err), each.want) || end.GetCode() != each.end.GetCode() || end.GetSignal() != each.end.GetSignal() {
			t.Errorf("%s: %v, %v; want %v, %v", name, end, err, each.end, each.want)
		}
		cancel()
	}
	if got := e.said(nil, e.far, "true"); got != (answer{}) {
		t.Errorf("afterwards: %+v", got)
	}
}
