package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// TestPriorities: under every order, a priority lets a job end earlier than without, or the jobs
// are refused with the order, the field and a remedy. Where it is ignored on request, it has no
// effect.
func TestPriorities(t *testing.T) {
	dir := t.TempDir()
	write := func(priority int) string {
		text := "job_id,submit_s,duration_s,num_gpus,user,priority\n0,0,3000,1,a,0\n"
		for i := range 5 {
			text += fmt.Sprintf("%d,%d,3000,1,a,0\n", 1+i, 1+i)
		}
		return file(t, dir, fmt.Sprintf("%d.csv", priority), text+fmt.Sprintf("9,10,3000,1,a,%d\n", priority))
	}
	plain, urgent := write(0), write(3)
	for _, order := range orders() {
		flags := " --nodes 1 --gpus-per-node 1" + forOrder(order) + " --jobs "
		last := func(line string) time.Duration {
			r, _ := play(t, line)
			return r.Jobs.At(r.Jobs.Len() - 1).Finish
		}
		if meanings[order].Priority != "" {
			if with, without := last(flags+urgent), last(flags+plain); with >= without {
				t.Errorf("%s: a job ends at %v with a priority, at %v without", order, with, without)
			}
			continue
		}
		_, err := say(context.Background(), strings.Fields("run"+flags+urgent)...)
		if !errors.Is(err, verb.ErrUsage) {
			t.Errorf("%s: %v", order, err)
			continue
		}
		for _, want := range []string{
			"order " + order + " ", "priority", "job 9: 3", "drf, priority, quota, gavel",
			"--ignore-priority",
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not contain %q", order, err, want)
			}
		}
		if with, without := last(flags+urgent+" --ignore-priority"), last(flags+plain); with != without {
			t.Errorf("%s: a job ends at %v with a priority that is ignored, at %v without", order, with, without)
		}
	}
	for _, profile := range []string{"blox", "tiresias"} {
		line := "compare --order fifo --nodes 1 --gpus-per-node 1 --profile " + profile + " --jobs " + urgent
		if _, err := say(context.Background(), strings.Fields(line)...); !errors.Is(err, verb.ErrUsage) ||
			!strings.Contains(err.Error(), "profile "+profile) {
			t.Errorf("%s: %v", profile, err)
		}
		if _, err := say(context.Background(), strings.Fields(line+" --ignore-priority")...); err != nil {
			t.Errorf("%s: %v", profile, err)
		}
	}
}

// TestWeights: under every order, the jobs of a user with a greater weight end earlier, or the flag
// is refused with the order.
func TestWeights(t *testing.T) {
	text := "job_id,submit_s,duration_s,num_gpus,user\n"
	for i := range 24 {
		text += fmt.Sprintf("%d,%d,3000,1,%c\n", i, i/8, 'a'+i%2)
	}
	jobs := file(t, t.TempDir(), "jobs.csv", text)
	for _, order := range orders() {
		line := " --nodes 1 --gpus-per-node 4" + forOrder(order) + " --jobs " + jobs
		if meanings[order].Weight == "" {
			_, err := say(context.Background(), strings.Fields("run"+line+" --weights b=4")...)
			if !errors.Is(err, verb.ErrUsage) || !strings.Contains(err.Error(), "--weights has no effect under order "+order) ||
				!strings.Contains(err.Error(), "drf and gavel") {
				t.Errorf("%s: %v", order, err)
			}
			continue
		}
		both := "compare --order " + order + ",las --weights b=4" + strings.ReplaceAll(line, "--order "+order, "")
		_, err := say(context.Background(), strings.Fields(both)...)
		if !errors.Is(err, verb.ErrUsage) || !strings.Contains(err.Error(), "order las ignores --weights") {
			t.Errorf("%s and las: %v", order, err)
		}
		if _, err := say(context.Background(), strings.Fields(both+" --ignore-weights")...); err != nil {
			t.Errorf("%s and las: %v", order, err)
		}
		mean := func(line string) (sum time.Duration) {
			r, _ := play(t, line)
			for i := range r.Jobs.All() {
				if r.Jobs.At(i).User == "b" {
					sum += jct(r, i) / 12
				}
			}
			return sum
		}
		if with, without := mean(line+" --weights b=4"), mean(line); float64(with) > 0.9*float64(without) {
			t.Errorf("%s: the user's jobs take %v with a weight of 4, %v without", order, with, without)
		}
	}
}

// TestContention: with the cluster's contention, themis counts what a large job would wait for
// alone, and serves a small one first.
func TestContention(t *testing.T) {
	jobs := file(t, t.TempDir(), "jobs.csv", header+"0,0,500,4\n1,1,2000,4\n2,2,2000,1\n")
	line := "--nodes 1 --gpus-per-node 4 --order themis --jobs " + jobs
	with, _ := play(t, line+" --contention 4")
	without, _ := play(t, line)
	if with.Jobs.At(2).Start >= with.Jobs.At(1).Start || without.Jobs.At(2).Start < without.Jobs.At(1).Start {
		t.Errorf("with contention job 2 starts at %v and job 1 at %v, without at %v and %v",
			with.Jobs.At(2).Start, with.Jobs.At(1).Start, without.Jobs.At(2).Start, without.Jobs.At(1).Start)
	}
	for _, flags := range []string{" --contention -1", " --contention NaN"} {
		if _, err := say(context.Background(), strings.Fields("run "+line+flags)...); !errors.Is(err, verb.ErrUsage) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

// TestPoliciesAreListed: every order is listed, once, with the meanings of priorities and weights.
func TestPoliciesAreListed(t *testing.T) {
	out, err := say(context.Background(), "policies")
	if err != nil || strings.Count(out, "\n") != 1+len(orders()) || len(meanings) != len(orders()) {
		t.Fatalf("%v, %s", err, out)
	}
	for _, name := range orders() {
		if _, ok := meanings[name]; !ok || !strings.Contains(out, "\n"+name+" ") {
			t.Errorf("%s is not listed: %s", name, out)
		}
	}
}

// TestPreemptionIsAsListed: the orders that are listed as preempting jobs do so in a crowd, and the
// others never do.
func TestPreemptionIsAsListed(t *testing.T) {
	text := "job_id,submit_s,duration_s,num_gpus,user,priority,min_gpus,max_gpus\n"
	for i := range 40 {
		text += fmt.Sprintf("%d,%d,%d,%d,%c,%d,1,3\n", i, 90*i, 100+(i*7919)%9000, 1+i%2, 'a'+i/10%2, i%3)
	}
	jobs := file(t, t.TempDir(), "jobs.csv", text)
	for _, o := range describeOrders() {
		line := "--nodes 2 --gpus-per-node 2 --ignore-priority" + forOrder(o.Order) + " --jobs " + jobs
		r, _ := play(t, strings.ReplaceAll(line, "a=4,b=2", "a=1,b=3"))
		if got := r.Summary.Preemptions > 0; got != (o.Preempts == "yes" || o.Preempts == "each round") {
			t.Errorf("%s: %d preemptions, and %q is listed", o.Order, r.Summary.Preemptions, o.Preempts)
		}
	}
	r, _ := play(t, "--nodes 2 --gpus-per-node 2 --order priority --preemptive-priority --jobs "+jobs)
	waits := [3]time.Duration{}
	for i := range r.Jobs.All() {
		waits[i%3] += jct(r, i)
	}
	if r.Summary.Preemptions == 0 || waits[2] >= waits[1] || waits[1] >= waits[0] {
		t.Errorf("%d preemptions; by priority, jobs take %v", r.Summary.Preemptions, waits)
	}
}

// jct returns the completion time of the i-th job.
func jct(r *sim.Result, i int) time.Duration {
	j := r.Jobs.At(i)
	return j.JCT()
}
