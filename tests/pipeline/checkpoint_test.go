package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestResume: a training that has ended goes on from a checkpoint on another number of ranks, as if
// it had not ended. The directory is one for all ranks, or each has its own and one is gone.
func TestResume(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own directories %v", own), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			directories := func(name string) options {
				o := options{}
				for number := range 5 {
					at := dir
					if own {
						at = filepath.Join(dir, fmt.Sprint(number))
					}
					o[number] = []string{name + "=" + at}
				}
				return o
			}
			first := start(t, "conv", 6, 4, inPipelines("conv", "faults=1", "end=3"), directories("checkpoint"))
			first.await()
			if own {
				if err := os.RemoveAll(filepath.Join(dir, "1")); err != nil {
					t.Fatal(err)
				}
			}
			again := inPipelines("conv", "faults=1")
			if !own {
				again = append(again, "checkpoint="+dir)
			}
			second := start(t, "conv", 6, 5, again, directories("resume"))
			second.await()
			// The checkpoint of step 4 is not complete, because the ranks ended in that step.
			want := strings.SplitAfterN(trained(t, "rule", "conv", 6).steps, "\n", 3)[2]
			for number := range 5 {
				if got := second.lines(number); got != want {
					t.Errorf("rank %d goes on with\n%swant\n%s", number, got, want)
				}
			}
			second.sameModel(trained(t, "rule", "conv", 6).model)
			if own {
				return
			}
			// A training that is over makes no step.
			over := start(t, "conv", 6, 2, inPipelines("conv", "resume="+dir), nil)
			over.await()
			if got := over.lines(0); got != "" || over.ranks[0].err != nil {
				t.Errorf("a training of 6 steps that has made them: %v, and\n%s", over.ranks[0].err, got)
			}
		})
	}
}

// TestRescue: ranks that are too few to go on write what they have; those that were silent do the
// same when they run again. The training goes on with all of it.
func TestRescue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const last = 200
	all := inPipelines("conv", "faults=1", "patience=2", "checkpoint="+dir, "resume="+dir)
	tr := start(t, "conv", last, 4, all, nil)
	tr.awaitStep(0, 3)
	// Both have the second half of the layers.
	signal(t, syscall.SIGSTOP, tr.ranks[1], tr.ranks[3])
	<-tr.ranks[0].ended
	<-tr.ranks[2].ended
	signal(t, syscall.SIGCONT, tr.ranks[1], tr.ranks[3])
	tr.await()
	for number, why := range []string{"PlanError: no living rank has the layers", "EvictedError", "PlanError", "EvictedError"} {
		if said := tr.ranks[number].said(); !strings.Contains(said, why) {
			t.Errorf("rank %d: %s", number, said)
		}
	}
	before := tr.lines(0)
	again := start(t, "conv", last, 5, append(all, "end="+fmt.Sprint(strings.Count(before, "\n")+1)), nil)
	again.await()
	after := again.lines(4)
	begin, _, _ := strings.Cut(after, "\n")
	if want := fmt.Sprintf(`{"number": %d,`, strings.Count(before, "\n")); !strings.HasPrefix(begin, want) {
		t.Errorf("it goes on with %s after the steps\n%s", begin, before)
	}
	undisturbed := start(t, "conv", last, 1, []string{"end=" + fmt.Sprint(strings.Count(before, "\n")+1)}, nil)
	undisturbed.await()
	if want := undisturbed.lines(0); before+after != want {
		t.Errorf("got\n%s%swant\n%s", before, after, want)
	}
}

func signal(t *testing.T, signal syscall.Signal, ranks ...*rank) {
	t.Helper()
	for _, r := range ranks {
		if err := r.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEvaluate: the mean over other data is the same on any number of ranks, though one dies.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	one := start(t, "conv", 4, 1, []string{"evaluate=1"}, nil)
	one.await()
	many := start(t, "conv", 4, 5, inPipelines("conv", "faults=1", "evaluate=1"), options{3: {"die=evaluate:1"}})
	many.await()
	if got, want := many.lines(0), one.lines(0); got != want || !strings.Contains(want, "\n0x1.") {
		t.Errorf("five ranks make\n%sone makes\n%s", got, want)
	}
	if !many.ranks[3].killed() {
		t.Error("rank 3 was not killed")
	}
}
