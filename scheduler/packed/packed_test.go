package packed_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// randomJob returns a job whose fields are each left out in half of all cases.
func randomJob(r *rand.Rand, id int) (j cluster.Job) {
	j.ID, j.GPUs = cluster.JobID(id), 1+r.IntN(9)
	for _, each := range []func(){
		func() { j.Name = strings.Repeat("n", r.IntN(300)) },
		func() { j.Submit = time.Duration(r.Int64N(int64(time.Hour))) },
		func() { j.Submit = time.Duration(r.IntN(3)) },
		func() { j.Length = time.Duration(r.Int64()) },
		func() { j.Estimate = j.Length + time.Duration(r.IntN(2)) },
		func() { j.Share = r.IntN(2) * cluster.WholeGPU },
		func() { j.MinGPUs = 1 },
		func() { j.MaxGPUs = 1 + r.IntN(1<<20) },
		func() { j.GPUType = string(rune('A' + r.IntN(4))) },
		func() { j.GPUMemoryBytes = r.Int64() },
		func() { j.Constraint = string(rune('A' + r.IntN(4))) },
		func() { j.User = string(rune('A' + r.IntN(26))) },
		func() { j.Priority = r.IntN(7) - 3 },
		func() { j.Model = "m" },
		func() { j.Fixed = true },
	} {
		if r.IntN(2) == 0 {
			each()
		}
	}
	return j
}

// TestJobs compares packed jobs with the jobs themselves.
func TestJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 5000} {
		want := make([]cluster.Job, n)
		for i := range want {
			want[i] = randomJob(r, r.IntN(2*n))
		}
		if n > 2 {
			want[1].Name, want[2].Name = strings.Repeat("x", 200_000), strings.Repeat("y", 65_530)
		}
		got := packed.Of(want...)
		if !slices.Equal(got.Slice(), want) || got.Len() != n {
			t.Fatal("the jobs are others")
		}
		for i, j := range got.All() {
			if j != want[i] || got.ID(i) != want[i].ID || got.Submit(i) != want[i].Submit {
				t.Fatalf("job at %d is %+v, want %+v", i, j, want[i])
			}
		}
		mapped := got.Map(func(i int, j *cluster.Job) { j.Priority, j.User = i, "one" })
		for i, j := range mapped.All() {
			if j.Priority != i || j.User != "one" || j.Name != want[i].Name {
				t.Fatalf("job at %d is %+v", i, j)
			}
		}
		byNumber := make([]int32, n)
		for i := range byNumber {
			byNumber[i] = int32(i)
		}
		slices.SortStableFunc(byNumber, func(a, b int32) int {
			return cmp.Or(cmp.Compare(want[a].Submit, want[b].Submit), cmp.Compare(want[a].ID, want[b].ID))
		})
		if !slices.Equal(got.Arrivals(), byNumber) {
			t.Error("the order of arrival is another")
		}
		byUser := func(a, b *cluster.Job) int { return cmp.Compare(a.User, b.User) }
		slices.SortStableFunc(want, func(a, b cluster.Job) int {
			return cmp.Or(cmp.Compare(a.Submit, b.Submit), byUser(&a, &b))
		})
		for range 2 {
			if got.Sort(byUser); !slices.Equal(got.Slice(), want) {
				t.Error("the sorted jobs are others")
			}
		}
	}
	if (*packed.Jobs)(nil).Len() != 0 {
		t.Error("nil has jobs")
	}
}
