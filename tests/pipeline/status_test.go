package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline/progress"
	"github.com/phos-gpu/phos/tests/harness"
)

// view runs phos pipeline on a training.
func (tr *training) view(flags ...string) (string, error) {
	tr.Helper()
	return tr.viewAt("127.0.0.1:"+tr.port, flags...)
}

// viewAt runs phos pipeline at a door.
func (tr *training) viewAt(door string, flags ...string) (string, error) {
	tr.Helper()
	ctx, cancel := context.WithTimeout(tr.Context(), harness.Patience)
	defer cancel()
	arguments := append(append([]string{"pipeline"}, flags...), door)
	said, err := exec.CommandContext(ctx, filepath.Join(harness.Bin(), "pos_cli"), arguments...).CombinedOutput()
	return string(said), err
}

// shown is what phos pipeline --json prints.
type shown struct {
	progress.Status
	Copies []progress.Copies
	Losses []progress.Loss
}

// look reads what phos pipeline says as soon as that is so.
func (tr *training) look(what string, is func(*shown) bool) *shown {
	tr.Helper()
	var s *shown
	harness.Eventually(tr.T, what, func() bool {
		text, err := tr.view("--json")
		s = &shown{}
		return err == nil && json.Unmarshal([]byte(text), s) == nil && is(s)
	})
	return s
}

// TestShown: a training shows its ranks and layers, what the loss of a rank would do, and, when one
// is lost, that just this has happened. Silent strangers at its door keep nobody waiting.
func TestShown(t *testing.T) {
	t.Parallel()
	begin := filepath.Join(t.TempDir(), "begin")
	tr := start(t, "conv", 400, 5, inPipelines("conv", "faults=1", "pause=0.02", "wait="+begin), nil)
	say(t, begin)
	tr.awaitStep(1, 2)
	for range 3 {
		stranger, err := net.Dial("tcp", "127.0.0.1:"+tr.port)
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
	}
	began := time.Now()
	before := tr.look("it makes steps", func(s *shown) bool { return s.Step > 2 && s.Loss != nil })
	if waited := time.Since(began); waited > 9*time.Second {
		t.Errorf("strangers kept the door for %v", waited)
	}
	if len(before.Ranks) != 5 || before.Steps != 400 || before.Faults != 1 {
		t.Errorf("got %+v", before.Status)
	}
	for _, each := range before.Ranks {
		if each.PID != tr.ranks[each.Rank].Pid {
			t.Errorf("rank %d is process %d, and not %d", each.Rank, each.PID, tr.ranks[each.Rank].Pid)
		}
	}
	next := 0
	for _, each := range before.Copies {
		if each.First != next || len(each.Ranks) < 2 {
			t.Errorf("with faults=1, layers %d to %d are on %v", each.First, each.Last, each.Ranks)
		}
		next = each.Last + 1
	}
	chart := filepath.Join(t.TempDir(), "chart.svg")
	text, err := tr.view("--svg", chart)
	for _, want := range []string{"PIPELINE", "IF LOST  COPIED", "joined: 0 1 2 3 4", "COMPUTES"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v: %q is not in\n%s", err, want, text)
		}
	}
	if svg, err := os.ReadFile(chart); err != nil || !strings.Contains(string(svg), "One iteration of") {
		t.Errorf("the chart: %v", err)
	}
	if text, err := tr.view("--kill", "2"); err == nil || !strings.Contains(text, fmt.Sprintf("kill -9 %d", tr.ranks[2].Pid)) {
		t.Errorf("--kill: %v: %s", err, text)
	}
	tr.killAsForeseen(before)
}

// killAsForeseen kills a rank, and compares what that has done with what was said before.
func (tr *training) killAsForeseen(before *shown) {
	tr.Helper()
	const dead = 2
	tr.kill(dead)
	after := tr.look("the loss is shown", func(s *shown) bool { return len(s.Ranks) == 4 && s.Seconds > 0 })
	last := after.Events[len(after.Events)-1]
	if len(last.Lost) != 1 || last.Lost[0].Rank != dead || !strings.Contains(last.Lost[0].Why, "connection ended") {
		tr.Errorf("the last event is %+v", last)
	}
	foreseen := before.Losses[slices.IndexFunc(before.Losses, func(l progress.Loss) bool { return slices.Equal(l.Ranks, []int{dead}) })]
	if foreseen.Bytes != last.Bytes || foreseen.Problem != "" {
		tr.Errorf("foreseen was %+v, and copied were %d bytes", foreseen, last.Bytes)
	}
	if took := time.Duration(foreseen.IterationNS); math.Abs(took.Seconds()*1e3-last.IterationMS) > 1e-3 || took == 0 {
		tr.Errorf("foreseen was a step of %v, and the plan says %v ms", took, last.IterationMS)
	}
	for _, r := range tr.ranks {
		_ = r.Kill()
	}
}

// TestDeclaredLost: the others go on without a rank that something outside has declared lost. It
// ends, and says why.
func TestDeclaredLost(t *testing.T) {
	t.Parallel()
	tr := start(t, "conv", 150, 5, inPipelines("conv", "faults=1", "pause=0.02"), nil)
	tr.awaitStep(1, 2)
	const hears = 1
	for _, not := range []string{"1", "77", "-3"} { // itself, and what there is not
		if text, err := tr.viewAt(tr.address(hears), "--lose", not); err == nil {
			t.Errorf("rank %s was declared lost: %s", not, text)
		}
	}
	if text, err := tr.viewAt(tr.address(hears), "--lose", "3", "--why", "Xid 79 on its GPU"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	<-tr.ranks[3].ended
	if said := tr.ranks[3].said(); !strings.Contains(said, "EvictedError") || !strings.Contains(said, "Xid 79 on its GPU") {
		t.Errorf("rank 3: %v: %s", tr.ranks[3].err, said)
	}
	if said := tr.ranks[3].said(); tr.ranks[3].err == nil {
		t.Errorf("rank 3 has succeeded: %s", said)
	}
	tr.ranks = slices.Delete(tr.ranks, 3, 4)
	tr.await()
	want := trained(t, "rule", "conv", 150)
	for _, r := range tr.ranks {
		if got := read(t, fmt.Sprintf("%s.%d.steps", r.out, r.number)); r.err != nil || got != want.steps {
			t.Errorf("rank %d: %v, and\n%s", r.number, r.err, got)
		}
	}
	tr.sameModel(want.model)
}

// TestDeclaredLostWhileItHangs: only a rank that is no first stage hears of a verdict, and the rank
// that it is about stands still, so that nothing else tells the others. They go on all the same.
func TestDeclaredLostWhileItHangs(t *testing.T) {
	t.Parallel()
	tr := start(t, "tied", 40, 4, inThesePipelines("tied", "faults=1", "patience=600"), nil)
	tr.awaitStep(3, 2)
	// Ranks 0 and 1 are a pipeline, and 2 and 3.
	const hangs, hears = 1, 3
	address := tr.address(hears) // later the rank that hangs may be the one that keeps the door
	signal(t, syscall.SIGSTOP, tr.ranks[hangs])
	if err := progress.Lose(t.Context(), address, hangs, "it hangs"); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the others have made all steps", func() bool {
		return !slices.ContainsFunc(tr.ranks, func(r *rank) bool {
			return r.number != hangs && strings.Count(tr.lines(r.number), "\n") < tr.steps
		})
	})
	tr.kill(hangs)
	tr.same(hangs)
}

// address returns where a rank listens, as one that joins is told.
func (tr *training) address(rank int) string {
	tr.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+tr.port)
	if err != nil {
		tr.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		tr.Fatal(err)
	}
	if _, err := conn.Write([]byte("{\"join\": true}\n")); err != nil {
		tr.Fatal(err)
	}
	var known struct{ Addresses [][2]json.RawMessage }
	if err := json.NewDecoder(conn).Decode(&known); err != nil {
		tr.Fatal(err)
	}
	for _, each := range known.Addresses {
		var number, port int
		var host string
		if err := errors.Join(json.Unmarshal(each[0], &number), json.Unmarshal(each[1], &[]any{&host, &port})); err != nil {
			tr.Fatal(err)
		}
		if number == rank {
			return net.JoinHostPort(host, fmt.Sprint(port))
		}
	}
	tr.Fatalf("rank %d listens nowhere", rank)
	return ""
}

// TestProfile: the planner takes what plan profile measures, and a program that does not train is
// named.
func TestProfile(t *testing.T) {
	t.Parallel()
	pythonPath, dir := python(t), t.TempDir()
	cli := func(arguments ...string) (string, error) {
		c := exec.CommandContext(t.Context(), filepath.Join(harness.Bin(), "pos_cli"), arguments...)
		c.Env = environ(t.TempDir())
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		return string(out) + said.String(), err
	}
	profile := filepath.Join(dir, "model.json")
	train := append([]string{pythonPath, filepath.Join(testdata, "train.py")}, append(numbers("tied", 4), filepath.Join(dir, "out"))...)
	text, err := cli(append([]string{"plan", "profile", "--out", profile, "--"}, train...)...)
	if err != nil || strings.Count(text, "\n") != 1+8 || strings.Count(text, " Block ") != 6 {
		t.Fatalf("%v: %s", err, text)
	}
	if text, err := cli("plan", "make", "--profile", profile, "--nodes", "3", "--microbatches", "7"); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "out*")); len(left) != 0 {
		t.Errorf("it has trained: %v", left)
	}
	for _, each := range [][]string{{"true"}, {"false"}, {"/no/such/program"}} {
		text, err := cli(append([]string{"plan", "profile", "--"}, each...)...)
		if err == nil || !strings.Contains(text, each[0]+" has ") {
			t.Errorf("%v: %v: %s", each, err, text)
		}
	}
}

// TestNoTraining: phos pipeline says what it has found instead of a training.
func TestNoTraining(t *testing.T) {
	t.Parallel()
	tr := start(t, "conv", 1, 0, nil, nil)
	if text, err := tr.view(); err == nil || !strings.Contains(text, "no training answers at 127.0.0.1:"+tr.port) {
		t.Errorf("%v: %s", err, text)
	}
	for answer, want := range map[string]string{
		"":                                      "is no training",
		"HTTP/1.1 400 Bad Request\r\n":          "is not understood",
		`{"step": 1, "plan": {"pipelines": 3}}`: "the plan of the training",
		`{"step": 1}`:                           "has no plan yet",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:"+tr.port)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_, _ = conn.Read(make([]byte, 100))
				_, _ = conn.Write([]byte(answer))
				if answer != "" {
					_, _ = conn.Write([]byte("\n"))
				}
				_ = conn.Close()
			}
		}()
		if text, err := tr.view(); err == nil || !strings.Contains(text, want) {
			t.Errorf("%q gives %v: %s", answer, err, text)
		}
		_ = listener.Close()
	}
}
