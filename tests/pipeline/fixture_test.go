// Package pipeline trains with the Python package phos.pipeline: real processes, PyTorch on the
// CPU, real connections. Processes are killed and stopped; what the others print and save must have
// the same bits as what one process without phos computes.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// What all trainings of these tests have in common.
const (
	microbatch = 2
	batch      = 14 // seven microbatches: no power of two
	clip       = 0.8
)

// numbers are the arguments that reference.py and train.py have in common.
func numbers(model string, steps int) []string {
	return []string{model, strconv.Itoa(steps), strconv.Itoa(microbatch), strconv.Itoa(batch), fmt.Sprint(clip)}
}

// references are the results of one process, by how, model and steps. They are computed once.
var references sync.Map

type reference struct {
	once  sync.Once
	steps string
	model []byte
}

// trained returns what one process without phos computes: a line for each step, and the model.
func trained(t *testing.T, how, model string, steps int) *reference {
	t.Helper()
	found, _ := references.LoadOrStore(fmt.Sprint(how, model, steps), &reference{})
	r := found.(*reference)
	r.once.Do(func() {
		out := filepath.Join(t.TempDir(), "reference")
		run(t, "reference.py", append([]string{how}, append(numbers(model, steps), out)...)).finish(t)
		r.steps, r.model = read(t, out+".steps"), []byte(read(t, out+".pt"))
	})
	if r.model == nil {
		t.Fatal("there is no reference")
	}
	return r
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// training is some ranks of train.py.
type training struct {
	*testing.T
	dir, model, port string
	steps            int
	all              []string // the options of all ranks
	ranks            []*rank
}

// rank is one process of a training.
type rank struct {
	*process
	number int // in the order of their starts
	out    string
}

// options are those of one rank: NAME=VALUE.
type options map[int][]string

// start starts the ranks of a training, with options that all have and others.
func start(t *testing.T, model string, steps, ranks int, all []string, own options) *training {
	t.Helper()
	tr := &training{T: t, dir: t.TempDir(), model: model, port: harness.FreePort(t), steps: steps, all: all}
	for number := range ranks {
		tr.begin("out", own[number], "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+tr.port,
			fmt.Sprintf("RANK=%d", number), fmt.Sprintf("WORLD_SIZE=%d", ranks))
	}
	t.Cleanup(tr.stop)
	return tr
}

// begin starts a rank, with options and environment of its own.
func (tr *training) begin(out string, own []string, environment ...string) *rank {
	tr.Helper()
	r := &rank{number: len(tr.ranks), out: filepath.Join(tr.dir, out)}
	arguments := append(append(append(numbers(tr.model, tr.steps), r.out), tr.all...), own...)
	r.process = run(tr.T, "train.py", arguments, environment...)
	tr.ranks = append(tr.ranks, r)
	return r
}

// prepare starts a process that waits until it may join the training.
func (tr *training) prepare(own ...string) *rank {
	tr.Helper()
	name := fmt.Sprintf("joined%d", len(tr.ranks))
	r := tr.begin(name, append(own, "wait="+tr.word(name)), "PHOS_PIPELINE_JOIN=127.0.0.1:"+tr.port)
	harness.Eventually(tr.T, "a process is ready to join", func() bool {
		_, err := os.Stat(tr.word(name) + ".ready")
		return err == nil
	})
	return r
}

// join lets a rank that was prepared join the training.
func (tr *training) join(r *rank) {
	tr.Helper()
	say(tr.T, tr.word(filepath.Base(r.out)))
}

// say makes a file that processes wait for.
func say(t *testing.T, word string) {
	t.Helper()
	if err := os.WriteFile(word, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// word is the file that a process waits for.
func (tr *training) word(name string) string { return filepath.Join(tr.dir, name+".go") }

// stop kills what is left of a training, and shows what its ranks have said if the test fails.
func (tr *training) stop() {
	for _, r := range tr.ranks {
		_ = r.Kill()
		<-r.ended
		if tr.Failed() {
			tr.Logf("rank %d: %v\n%s", r.number, r.err, r.said())
		}
	}
}

// killed reports whether a rank was killed.
func (r *rank) killed() bool {
	var status exit
	return errors.As(r.err, &status) && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// await waits until all ranks have ended.
func (tr *training) await() {
	tr.Helper()
	ctx, cancel := context.WithTimeout(tr.Context(), harness.Patience)
	defer cancel()
	for _, r := range tr.ranks {
		select {
		case <-r.ended:
		case <-ctx.Done():
			tr.Fatalf("rank %d has not ended", r.number)
		}
	}
}

// lines returns the steps that a rank has made.
func (tr *training) lines(number int) string {
	tr.Helper()
	path := fmt.Sprintf("%s.%d.steps", tr.ranks[number].out, number)
	if drawn, _ := filepath.Glob(tr.ranks[number].out + ".*.steps"); number >= tr.first() && len(drawn) == 1 {
		path = drawn[0]
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		tr.Fatal(err)
	}
	return string(text)
}

// first returns the first rank that has joined. Its number is drawn, and its file is named by it.
func (tr *training) first() int {
	for i, r := range tr.ranks {
		if filepath.Base(r.out) != "out" {
			return i
		}
	}
	return len(tr.ranks)
}

// awaitStep waits until a rank has made a number of steps.
func (tr *training) awaitStep(number, steps int) {
	tr.Helper()
	harness.Eventually(tr.T, fmt.Sprintf("rank %d has made %d steps", number, steps), func() bool {
		return strings.Count(tr.lines(number), "\n") >= steps
	})
}

// same waits for the end, and compares each step and the model with what one process computes. All
// ranks but the dead ones have made all steps.
func (tr *training) same(dead ...int) {
	tr.Helper()
	tr.await()
	want := trained(tr.T, "rule", tr.model, tr.steps)
	for _, r := range tr.ranks {
		got := tr.lines(r.number)
		switch {
		case slices.Contains(dead, r.number):
			if !r.killed() {
				tr.Errorf("rank %d was not killed: %v", r.number, r.err)
			}
			if !strings.HasPrefix(want.steps, got) {
				tr.Errorf("rank %d died after other steps:\n%swant\n%s", r.number, got, want.steps)
			}
		case r.err != nil:
			tr.Errorf("rank %d: %v", r.number, r.err)
		case got != want.steps:
			tr.Errorf("rank %d has made the steps\n%swant\n%s", r.number, got, want.steps)
		}
	}
	tr.sameModel(want.model)
}

// sameModel compares the model that was saved with another one.
func (tr *training) sameModel(want []byte) {
	tr.Helper()
	other := filepath.Join(tr.dir, "want.pt")
	if err := os.WriteFile(other, want, 0o600); err != nil {
		tr.Fatal(err)
	}
	run(tr.T, "same.py", []string{filepath.Join(tr.dir, "out.pt"), other}).finish(tr.T)
}
