package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// places are where train.py can let a rank die, with how often each is passed before the step in
// which it dies. Before the first step all ranks agree once.
var places = []string{
	"report:1", "decision:1", "transfer:1", "ready:1", // while the first plan is made
	"forward:7", "backward:7", "exchange:3", "assemble:3", "sums:3", "apply:3", "save:1",
}

// TestDiesAt: a rank that dies at any place is not missed: not the lowest one, which leads, and not
// another one.
func TestDiesAt(t *testing.T) {
	first := rounds.First(5)
	for i, place := range places {
		for j, number := range []int{0, 3} {
			if (2*i+j)%5 != first && !rounds.All() {
				continue
			}
			t.Run(fmt.Sprintf("%s, rank %d", place, number), func(t *testing.T) {
				t.Parallel()
				own := options{number: {"die=" + place}}
				start(t, "gpt", 4, 5, inThesePipelines("gpt", "faults=1"), own).same(number)
			})
		}
	}
}

// TestDiesInRecovery: a rank that dies while the others recover from the loss of another one ends
// in the same state.
func TestDiesInRecovery(t *testing.T) {
	first := rounds.First(4)
	for i, place := range []string{"report:2", "decision:2", "transfer:2", "ready:2"} {
		for j, number := range []int{0, 2} {
			if (2*i+j)%4 != first && !rounds.All() {
				continue
			}
			t.Run(fmt.Sprintf("%s, rank %d", place, number), func(t *testing.T) {
				t.Parallel()
				own := options{4: {"die=backward:5"}, number: {"die=" + place}}
				start(t, "conv", 4, 7, inThesePipelines("conv", "faults=1"), own).same(4, number)
			})
		}
	}
}

// TestPipelineLost: all ranks of a pipeline die at once.
func TestPipelineLost(t *testing.T) {
	t.Parallel()
	tr := start(t, "tied", 6, 4, inThesePipelines("tied", "faults=1"), nil)
	tr.awaitStep(2, 2)
	tr.kill(0)
	tr.kill(1)
	tr.same(0, 1)
}

// TestMachineLost: a machine with several ranks is lost. No layer is only there, though all first
// stages would be if ranks had their places in the order of their numbers.
func TestMachineLost(t *testing.T) {
	t.Parallel()
	own, lost := options{}, []int{0, 2, 4}
	for number := range 6 {
		own[number] = []string{"machine=" + []string{"one", "other"}[number%2]}
	}
	tr := start(t, "conv", 30, 6, inThesePipelines("conv", "faults=1"), own)
	tr.awaitStep(1, 2)
	for _, number := range lost {
		if err := tr.ranks[number].Kill(); err != nil {
			t.Errorf("rank %d has ended already: %v", number, err)
		}
	}
	tr.same(lost...)
}

// TestRepeatsTheLost: what is computed again is only what a pipeline has computed that has lost a
// rank. Others finish what they have begun.
func TestRepeatsTheLost(t *testing.T) {
	for _, place := range []string{"forward:9", "backward:8", "backward:10"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			passes := func(number int) string { return filepath.Join(dir, fmt.Sprint(number)) }
			own := options{0: {"die=" + place}}
			for number := range 4 {
				own[number] = append(own[number], "passes="+passes(number))
			}
			// Ranks 0 and 1 are a pipeline, and 2 and 3.
			start(t, "tied", 5, 4, inThesePipelines("tied", "faults=1"), own).same(0)
			lost := strings.Fields(strings.ReplaceAll(strings.TrimSpace(read(t, passes(1))), " ", "/"))
			others := strings.Fields(strings.ReplaceAll(strings.TrimSpace(read(t, passes(3))), " ", "/"))
			seen := map[string]int{}
			for _, each := range slices.Concat(lost, others) {
				seen[each]++
			}
			if len(seen) != 5*batch/microbatch {
				t.Errorf("%d microbatches were computed", len(seen))
			}
			repeated := 0
			for i, each := range others {
				if slices.Contains(others[:i], each) {
					t.Errorf("the pipeline that has lost no rank computes %s (step/microbatch) again", each)
				}
				if slices.Contains(lost, each) {
					repeated++
				}
			}
			if share := batch/microbatch/2 + 1; repeated > share {
				t.Errorf("%d microbatches are repeated, and the lost pipeline had %d of a step", repeated, share)
			}
		})
	}
}

// TestBackups: what a rank has computed of a step counts though it is lost, because others have it.
// It dies when it has computed five of its seven microbatches, and one more is on its way.
func TestBackups(t *testing.T) {
	all := []string{"batch=28", "slow=0.2"}
	want := start(t, "tied", 3, 1, []string{"batch=28"}, nil)
	want.await()
	for _, dies := range []int{0, 1} { // the first stage, and the last one, which alone knows the losses
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			own := options{}
			for number := range 4 {
				own[number] = []string{"passes=" + filepath.Join(dir, fmt.Sprint(number))}
			}
			own[dies] = append(own[dies], "die=backward:13")
			tr := start(t, "tied", 3, 4, inThesePipelines("tied", append(all, "faults=1", "backup=0.05")...), own)
			tr.await()
			for _, r := range tr.ranks {
				if got := tr.lines(r.number); r.number != dies && (r.err != nil || got != want.lines(0) || got == "") {
					t.Errorf("rank %d: %v: it has made the steps\n%swant\n%s", r.number, r.err, got, want.lines(0))
				}
			}
			passes := map[string]int{}
			for number := range 4 {
				text, _ := os.ReadFile(filepath.Join(dir, fmt.Sprint(number)))
				for line := range strings.Lines(string(text)) {
					passes[line]++
				}
			}
			repeated := 0
			for _, times := range passes {
				repeated += times - 1
			}
			if repeated < 1 || repeated > 3 {
				t.Errorf("%d microbatches are computed again: %v", repeated, passes)
			}
		})
	}
}

// TestRandomLosses: ranks are killed at random moments until no other one may be.
func TestRandomLosses(t *testing.T) {
	for seed := range uint64(rounds.Of(1, 20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 20))
			const ranks, losses, last = 7, 3, 24
			tr := start(t, "conv", last, ranks, inPipelines("conv", "faults=1", "backup=0"), nil)
			dead := r.Perm(ranks)[:losses]
			watched := r.Perm(ranks)
			for i, number := range dead {
				alive := watched[0]
				for _, other := range watched {
					if !slices.Contains(dead[:i], other) {
						alive = other
					}
				}
				tr.awaitStep(alive, (i+1)*last/(losses+2)+r.IntN(3))
				tr.kill(number)
			}
			tr.same(dead...)
		})
	}
}

// TestTooFew: when no plan is left for those that live, they end, and say why.
func TestTooFew(t *testing.T) {
	t.Parallel()
	tr := start(t, "conv", 200, 4, inThesePipelines("conv", "faults=1"), nil)
	tr.awaitStep(0, 2)
	tr.kill(1)
	tr.kill(3)
	tr.await()
	for _, number := range []int{0, 2} {
		if said := tr.ranks[number].said(); tr.ranks[number].err == nil || !strings.Contains(said, "PlanError") {
			t.Errorf("rank %d: %v: %s", number, tr.ranks[number].err, said)
		}
	}
}

// TestSilent: the others go on without a rank that stands still. When it runs again, it ends: it
// does not train by itself.
func TestSilent(t *testing.T) {
	t.Parallel()
	tr := start(t, "conv", 6, 5, inPipelines("conv", "faults=1", "patience=3"), nil)
	tr.awaitStep(2, 1)
	silent := tr.ranks[2]
	if err := silent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, r := range tr.ranks {
		if r != silent {
			<-r.ended
		}
	}
	if err := silent.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-silent.ended
	want := trained(t, "rule", "conv", 6)
	if got := tr.lines(0); got != want.steps {
		t.Errorf("the others have made\n%swant\n%s", got, want.steps)
	}
	if got := tr.lines(2); got == want.steps || !strings.HasPrefix(want.steps, got) {
		t.Errorf("the silent rank has made\n%s", got)
	}
	if said := silent.said(); !strings.Contains(said, "Error: ") {
		t.Errorf("it ended with %v: %s", silent.err, said)
	}
	tr.sameModel(want.model)
}

// kill kills a rank.
func (tr *training) kill(number int) {
	tr.Helper()
	if err := tr.ranks[number].Kill(); err != nil {
		tr.Errorf("rank %d has ended already: %v", number, err)
	}
	harness.Eventually(tr.T, "the rank is dead", func() bool {
		select {
		case <-tr.ranks[number].ended:
			return true
		default:
			return false
		}
	})
}
