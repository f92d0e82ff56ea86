package order

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// bestPreemptive is the least sum of completion times over all preemptive schedules of one GPU that
// change at whole seconds.
func bestPreemptive(jobs []cluster.Job) time.Duration {
	memory := map[string]int{}
	var best func(now int, left []int) int
	best = func(now int, left []int) int {
		key := fmt.Sprint(now, left)
		if known, ok := memory[key]; ok {
			return known
		}
		least, open, present := math.MaxInt, 0, 0
		for i, job := range jobs {
			if left[i] == 0 {
				continue
			}
			open++
			if job.Submit > seconds(now) {
				continue
			}
			present++
			then := slices.Clone(left)
			then[i]--
			least = min(least, best(now+1, then))
		}
		switch {
		case open == 0:
			least = 0
		case present == 0:
			least = best(now+1, left)
		default:
			least += present
		}
		memory[key] = least
		return least
	}
	left := make([]int, len(jobs))
	for i, job := range jobs {
		left[i] = int(job.Length / time.Second)
	}
	return seconds(best(0, left))
}

func TestSRTFIsOptimal(t *testing.T) {
	var jobs [3]cluster.Job
	const kinds = 4 * 3
	for n := range kinds * kinds * kinds {
		for i := range jobs {
			jobs[i] = cluster.Job{Submit: seconds(n % 4), Length: seconds(1 + n/4%3)}
			n /= kinds
		}
		if got, want := newToy(SRTF{}, 1, jobs[:]).play(t).total(), bestPreemptive(jobs[:]); got != want {
			t.Fatalf("%v: SRTF takes %v, the best schedule %v", jobs, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		jobs := some(r, 5, 8, 5, 1)
		got, want := newToy(SRTF{}, 1, jobs).play(t).total(), bestPreemptive(jobs)
		if got != want {
			t.Fatalf("%v: SRTF takes %v, the best schedule %v", jobs, got, want)
		}
		if fifo := newToy(FIFO{}, 1, jobs).play(t).total(); fifo < got {
			t.Fatalf("%v: SRTF takes %v, FIFO %v", jobs, got, fifo)
		}
	}
}

// TestSJFIsOptimal among orders without preemption, if all jobs are present.
func TestSJFIsOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		jobs := some(r, 5, 0, 9, 1)
		best := time.Duration(math.MaxInt64)
		permute(len(jobs), func(order []int) {
			now, sum := time.Duration(0), time.Duration(0)
			for _, i := range order {
				now += jobs[i].Length
				sum += now
			}
			best = min(best, sum)
		})
		if got := newToy(SJF{}, 1, jobs).play(t).total(); got != best {
			t.Fatalf("%v: SJF takes %v, the best order %v", jobs, got, best)
		}
	}
}

func permute(n int, visit func([]int)) {
	order := make([]int, 0, n)
	var extend func()
	extend = func() {
		if len(order) == n {
			visit(order)
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
}

// TestWidthCounts has three jobs on two GPUs: two GPUs for 2 s, one for 8 s, two for 6 s.
func TestWidthCounts(t *testing.T) {
	jobs := []cluster.Job{{GPUs: 2, Length: seconds(2)}, {GPUs: 1, Length: seconds(8)}, {GPUs: 2, Length: seconds(6)}}
	for _, c := range []struct {
		order scheduler.Orderer
		want  []int
	}{
		{FIFO{}, []int{2, 10, 16}},
		{SRTF{}, []int{2, 16, 8}},
		{SRSF{}, []int{2, 10, 16}},
		// Service 0,0,0: job 0 for a second, job 1 for two, job 2 for one, then 1 with 2 and 2: job 0
		// again, and so on.
		{LAS2D{}, leastService(jobs, 2)},
	} {
		if got := newToy(c.order, 2, jobs).play(t).ends(); !slices.Equal(got, c.want) {
			t.Errorf("%T ends the jobs at %v, want %v", c.order, got, c.want)
		}
	}
}

// leastService computes by hand the result of least attained service in two dimensions for jobs
// that are present from the beginning.
func leastService(jobs []cluster.Job, gpus int) []int {
	had, ran, ends := make([]int, len(jobs)), make([]int, len(jobs)), make([]int, len(jobs))
	for now := 0; slices.Contains(ends, 0); now++ {
		free, tried := gpus, make([]bool, len(jobs))
		for range jobs {
			next := -1
			for i := range jobs {
				if !tried[i] && ends[i] == 0 && (next < 0 || had[i] < had[next]) {
					next = i
				}
			}
			if next < 0 {
				break
			}
			tried[next] = true
			if jobs[next].GPUs <= free {
				free -= jobs[next].GPUs
				ran[next]++
			}
		}
		for i, job := range jobs {
			had[i] = ran[i] * job.GPUs
			if ends[i] == 0 && seconds(ran[i]) == job.Length {
				ends[i] = now + 1
			}
		}
	}
	return ends
}

func TestFIFOAndPriority(t *testing.T) {
	jobs := []cluster.Job{
		{Submit: seconds(1), Length: seconds(5), Priority: 1},
		{Submit: seconds(0), Length: seconds(3)},
		{Submit: seconds(2), Length: seconds(1), Priority: 2},
		{Submit: seconds(1), Length: seconds(1), Priority: 1},
	}
	for _, c := range []struct {
		order scheduler.Orderer
		want  []int
	}{
		{FIFO{}, []int{8, 3, 10, 9}},
		{Priority{}, []int{9, 3, 4, 10}},
		{Priority{Preemptive: true}, []int{7, 10, 3, 8}},
	} {
		if got := newToy(c.order, 1, jobs).play(t).ends(); !slices.Equal(got, c.want) {
			t.Errorf("%#v ends the jobs at %v, want %v", c.order, got, c.want)
		}
	}
}
