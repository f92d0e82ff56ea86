package pipeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// TestComeAndGo: ranks are killed, leave and join at random moments. Each makes the steps that one
// process makes, from its coming to its end.
func TestComeAndGo(t *testing.T) {
	for seed := range uint64(rounds.Of(1, 20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 21))
			const ranks, changes, last = 5, 5, 160
			begin := filepath.Join(t.TempDir(), "begin")
			all := inPipelines("conv", "faults=1", "wait="+begin, "evaluate=always", "checkpoint="+t.TempDir(), "backup=0")
			tr := start(t, "conv", last, ranks, all, nil)
			living := []int{0, 1, 2, 3, 4}
			var prepared []*rank
			for range changes {
				prepared = append(prepared, tr.prepare())
			}
			say(t, begin)
			var killed, left []int
			for i := range changes {
				watched := living[r.IntN(len(living))]
				tr.awaitStep(watched, 1+strings.Count(tr.lines(watched), "\n")+r.IntN(4))
				if len(living) <= 4 || r.IntN(3) == 0 {
					tr.join(prepared[0])
					living, prepared = append(living, prepared[0].number), prepared[1:]
					tr.awaitStep(living[len(living)-1], 1)
					continue
				}
				at := r.IntN(len(living))
				number := living[at]
				living = slices.Delete(living, at, at+1)
				if i%2 == 0 {
					tr.kill(number)
					killed = append(killed, number)
				} else {
					tr.leave(number)
					left = append(left, number)
				}
			}
			for _, r := range prepared {
				tr.kill(r.number)
			}
			tr.ranks = tr.ranks[:len(tr.ranks)-len(prepared)] // the last ones
			tr.sameFrom(killed, left)
		})
	}
}

// TestLeaves: ranks that are asked to end leave after the step, also the lowest one, which leads.
func TestLeaves(t *testing.T) {
	t.Parallel()
	tr := start(t, "tied", 12, 5, inPipelines("tied", "faults=1"), nil)
	tr.awaitStep(3, 2)
	tr.leave(0)
	tr.awaitStep(3, 5)
	tr.sameFrom(nil, []int{0})
}

// TestAhead: layers are copied while a step is computed, so that nothing is left to copy at its
// end: for a rank that comes, and for those that get what a leaving one has.
func TestAhead(t *testing.T) {
	for _, comes := range []bool{true, false} {
		t.Run(map[bool]string{true: "join", false: "leave"}[comes], func(t *testing.T) {
			t.Parallel()
			tr := start(t, "gpt", 5, 5, inThesePipelines("gpt", "faults=1", "slow=0.4"), nil)
			var joins *rank
			if comes {
				joins = tr.prepare()
			}
			tr.awaitStep(3, 2)
			var left []int
			if comes {
				tr.join(joins)
			} else {
				tr.leave(1)
				left = append(left, 1)
			}
			s := tr.look("the ranks have changed", func(s *shown) bool { return len(s.Events) > 1 })
			if last := s.Events[1]; last.Bytes != 0 || len(last.Joined)+len(last.Left) != 1 {
				t.Errorf("between the steps %d bytes are copied: %+v", last.Bytes, last)
			}
			tr.sameFrom(nil, left)
		})
	}
}

// TestOtherTraining: a process that trains something else does not join. The others go on.
func TestOtherTraining(t *testing.T) {
	t.Parallel()
	begin := filepath.Join(t.TempDir(), "begin")
	tr := start(t, "conv", 120, 3, []string{"faults=1", "wait=" + begin, "pause=0.02"}, nil)
	other := tr.prepare("threads=2")
	say(t, begin)
	tr.awaitStep(1, 1)
	tr.join(other)
	<-other.ended
	if said := other.said(); other.err == nil || !strings.Contains(said, "threads is 2 on rank") {
		t.Errorf("%v: %s", other.err, said)
	}
	tr.ranks = tr.ranks[:3]
	tr.sameFrom(nil, nil)
}

// TestUnequalMachines: ranks with other numbers of threads train together if the bits may differ,
// and a rank is lost.
func TestUnequalMachines(t *testing.T) {
	t.Parallel()
	all := inPipelines("conv", "faults=1", "reproducible=no")
	tr := start(t, "conv", 4, 5, all, options{1: {"threads=2"}, 4: {"die=backward:5"}})
	tr.await()
	want := steps(t, trained(t, "plain", "conv", 4).steps)
	for _, r := range tr.ranks[:4] {
		got := steps(t, tr.lines(r.number))
		for i, each := range want {
			if r.err != nil || len(got) != len(want) || !near(got[i].Loss, each.Loss) || !near(got[i].Norm, each.Norm) {
				t.Fatalf("rank %d: %v: %+v, and PyTorch's %+v", r.number, r.err, got, want)
			}
		}
	}
}

// TestJoinAtOnce: ranks that come at the same time join one after the other.
func TestJoinAtOnce(t *testing.T) {
	t.Parallel()
	begin := filepath.Join(t.TempDir(), "begin")
	tr := start(t, "conv", 150, 2, []string{"faults=1", "wait=" + begin, "pause=0.03"}, nil)
	var prepared []*rank
	for range rounds.Of(2, 5) {
		prepared = append(prepared, tr.prepare())
	}
	say(t, begin)
	tr.awaitStep(1, 1)
	for _, r := range prepared {
		tr.join(r)
	}
	tr.sameFrom(nil, nil)
}

// TestDiesInJoin: a rank dies while layers are copied to one that joins.
func TestDiesInJoin(t *testing.T) {
	t.Parallel()
	begin := filepath.Join(t.TempDir(), "begin")
	tr := start(t, "conv", 160, 4, inPipelines("conv", "faults=1", "wait="+begin), options{2: {"die=send:2"}})
	joins := tr.prepare()
	say(t, begin)
	tr.awaitStep(1, 1)
	tr.join(joins)
	tr.sameFrom([]int{2}, nil)
}

// TestLateRank: ranks that wait for the last one for longer than they would wait for a silent one.
func TestLateRank(t *testing.T) {
	t.Parallel()
	begin := filepath.Join(t.TempDir(), "begin")
	tr := start(t, "conv", 4, 3, inPipelines("conv", "patience=2"), options{2: {"wait=" + begin}})
	harness.Eventually(t, "the last one is ready", func() bool { _, err := os.Stat(begin + ".ready"); return err == nil })
	time.Sleep(5 * time.Second)
	say(t, begin)
	tr.same()
}

// TestAllAskedToEnd: when all ranks are asked to end, they write a checkpoint of the same step.
func TestAllAskedToEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const last = 400
	tr := start(t, "conv", last, 4, inPipelines("conv", "faults=1", "checkpoint="+dir, "resume="+dir), nil)
	tr.awaitStep(0, 3)
	signal(t, syscall.SIGTERM, tr.ranks...)
	tr.await()
	made := strings.Count(tr.lines(0), "\n")
	for _, r := range tr.ranks {
		if said := r.said(); !strings.Contains(said, fmt.Sprintf("has written its layers after step %d", made)) {
			t.Errorf("rank %d: %v: %s", r.number, r.err, said)
		}
	}
	again := start(t, "conv", last, 2, inPipelines("conv", "resume="+dir, fmt.Sprintf("end=%d", made+1)), nil)
	again.await()
	if got := again.lines(0); !strings.HasPrefix(got, fmt.Sprintf(`{"number": %d,`, made)) {
		t.Errorf("after %d steps it goes on with %s: %s", made, got, again.ranks[0].said())
	}
}

// TestNoDoor: a rank that is to join a training that is not there ends, and says where it asked.
func TestNoDoor(t *testing.T) {
	t.Parallel()
	tr := start(t, "conv", 4, 0, nil, nil)
	r := tr.prepare()
	tr.join(r)
	<-r.ended
	if said := r.said(); r.err == nil || !strings.Contains(said, "no training answers where PHOS_PIPELINE_JOIN says: 127.0.0.1:"+tr.port) {
		t.Errorf("%v: %s", r.err, said)
	}
}

// leave asks a rank to end, and waits until it has.
func (tr *training) leave(number int) {
	tr.Helper()
	r := tr.ranks[number]
	signal(tr.T, syscall.SIGTERM, r)
	<-r.ended
	var status exit
	if !errors.As(r.err, &status) || status.ExitStatus() != 128+int(syscall.SIGTERM) {
		tr.Errorf("rank %d has left with %v", number, r.err)
	}
}

// sameFrom waits for the end, and compares what each rank has made with what one process makes.
func (tr *training) sameFrom(killed, left []int) {
	tr.Helper()
	tr.await()
	want := trained(tr.T, "rule", tr.model, tr.steps)
	for _, r := range tr.ranks {
		got := tr.lines(r.number)
		switch {
		case got == "" && !slices.Contains(killed, r.number) || !strings.Contains(want.steps, got):
			tr.Errorf("rank %d has made\n%s", r.number, got)
		case r.number < tr.first() && !strings.HasPrefix(want.steps, got):
			tr.Errorf("rank %d has not begun with the first step:\n%s", r.number, got)
		case slices.Contains(killed, r.number) || slices.Contains(left, r.number):
		case r.err != nil || !strings.HasSuffix(want.steps, got):
			tr.Errorf("rank %d has ended with %v and the steps\n%s", r.number, r.err, got)
		}
	}
	tr.sameModel(want.model)
}
