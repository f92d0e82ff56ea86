package sim

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// JobResults are the results of jobs, by number. They are packed: a job takes some 30 bytes,
// beside what the trace has of it.
type JobResults struct {
	jobs   *packed.Jobs
	rows   packed.Rows
	places []packed.Place // by index of jobs; 0 for jobs that have not started
	order  []int32        // of the indices; nil if they are in order
	row    []byte         // of set
}

func newJobResults(jobs *packed.Jobs) *JobResults {
	return &JobResults{jobs: jobs, places: make([]packed.Place, jobs.Len())}
}

// ResultsOf packs results, which keep their order.
func ResultsOf(results ...JobResult) *JobResults {
	r := newJobResults(&packed.Jobs{})
	for i := range results {
		j := &results[i]
		r.jobs.Add(&cluster.Job{
			ID: j.ID, Name: j.Name, User: j.User, Priority: j.Priority, GPUs: j.GPUs, Share: j.Share, Length: j.Length,
			Estimate: j.Length, Submit: j.Submit,
		})
		r.places = append(r.places, 0)
		r.set(i, j)
	}
	return r
}

// Len returns the number of jobs; that of nil is 0.
func (r *JobResults) Len() int {
	switch {
	case r == nil:
		return 0
	case r.order != nil:
		return len(r.order)
	}
	return len(r.places)
}

// At returns the result of the i-th job.
func (r *JobResults) At(i int) JobResult {
	j, rest := r.read(i)
	if r.known(r.index(i)) {
		j.Placement = readPlacement(&rest)
	}
	return j
}

// Unplaced returns the result of the i-th job without its placement, which takes memory.
func (r *JobResults) Unplaced(i int) JobResult {
	j, _ := r.read(i)
	return j
}

// index returns the index of the i-th job in the list of jobs.
func (r *JobResults) index(i int) int {
	if r.order != nil {
		return int(r.order[i])
	}
	return i
}

// All returns the results with their indices.
func (r *JobResults) All() iter.Seq2[int, JobResult] {
	return func(yield func(int, JobResult) bool) {
		for i := range r.Len() {
			if !yield(i, r.At(i)) {
				return
			}
		}
	}
}

// Slice returns the results, unpacked.
func (r *JobResults) Slice() []JobResult {
	all := make([]JobResult, r.Len())
	for i := range all {
		all[i] = r.At(i)
	}
	return all
}

// unstarted returns the result of a job before anything has become of it.
func (r *JobResults) unstarted(i int) JobResult {
	j := r.jobs.At(i)
	result := JobResult{
		ID: j.ID, Name: j.Name, User: j.User, Priority: j.Priority, GPUs: j.GPUs, Share: j.Share, Length: j.Length,
		Submit: j.Submit,
	}
	if j.Share == 0 {
		result.Share = cluster.WholeGPU
	}
	return result
}

// sort orders the tracked jobs by number, and leaves the others out.
func (r *JobResults) sort(track Track) {
	order := make([]int32, 0, len(r.places))
	sorted := true
	for i := range r.places {
		if id := r.jobs.ID(i); track.Counts(id) {
			sorted = sorted && (len(order) == 0 || r.jobs.ID(int(order[len(order)-1])) < id)
			order = append(order, int32(i))
		}
	}
	if !sorted {
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(r.jobs.ID(int(a)), r.jobs.ID(int(b))) })
	}
	if !sorted || len(order) < len(r.places) {
		r.order = order
	}
}

// known reports whether set has kept what has become of a job.
func (r *JobResults) known(i int) bool { return r.places[i] != 0 }

// What the row of a job has, beside its outcome. Most jobs have one run, until their end.
const (
	hasStarted   = 1 << iota
	hasStart     // that is not the submission
	hasRan       // that is not the time from start to end
	hasGPUTime   // that is not the product of this time and the GPUs
	hasCounts    // that are not those of a single run
	outcomeShift = iota
)

// set keeps what has become of a job.
func (r *JobResults) set(i int, j *JobResult) {
	has := j.has()
	row := binary.AppendUvarint(r.row[:0], has)
	if has&hasStart != 0 {
		row = packed.AppendTime(row, j.Start-j.Submit)
	}
	row = packed.AppendTime(row, j.Finish-j.Start)
	row = packed.AppendFloat(row, j.Contention)
	if has&hasRan != 0 {
		row = packed.AppendTime(row, j.Ran)
	}
	if has&hasGPUTime != 0 {
		row = packed.AppendFloat(row, j.GPUSeconds)
	}
	if has&hasCounts != 0 {
		for _, count := range [...]int64{
			int64(j.Preemptions), int64(j.Failures), int64(j.Runs), int64(j.Migrations), int64(j.Resizes), int64(j.Restarts),
		} {
			row = binary.AppendVarint(row, count)
		}
	}
	r.row = appendPlacement(row, j.Placement)
	r.places[i] = r.rows.Add(r.row)
}

// has returns what the row of the job has.
func (j *JobResult) has() (has uint64) {
	for _, part := range [...]struct {
		bit uint64
		is  bool
	}{
		{hasStarted, j.Started},
		{hasStart, j.Start != j.Submit},
		{hasRan, j.Ran != j.Finish-j.Start},
		{hasGPUTime, j.GPUSeconds != gpuSeconds(j.Ran, j.GPUs, j.Share)},
		{hasCounts, j.Runs != 1 || j.Preemptions|j.Failures != 0 || j.Migrations|j.Resizes|j.Restarts != 0},
	} {
		if part.is {
			has |= part.bit
		}
	}
	return has | uint64(j.Outcome)<<outcomeShift
}

// read reads what set has kept, up to the placement.
func (r *JobResults) read(i int) (j JobResult, row packed.Reader) {
	i = r.index(i)
	j = r.unstarted(i)
	if !r.known(i) {
		return j, row
	}
	row = r.rows.From(r.places[i])
	has := row.Uint()
	j.Started, j.Outcome, j.Start = has&hasStarted != 0, Outcome(has>>outcomeShift), j.Submit
	if has&hasStart != 0 {
		j.Start += row.Time()
	}
	j.Finish, j.Contention = j.Start+row.Time(), row.Float()
	j.Ran = j.Finish - j.Start
	if has&hasRan != 0 {
		j.Ran = row.Time()
	}
	j.GPUSeconds = gpuSeconds(j.Ran, j.GPUs, j.Share)
	if has&hasGPUTime != 0 {
		j.GPUSeconds = row.Float()
	}
	j.Runs = 1
	if has&hasCounts != 0 {
		j.Preemptions, j.Failures = int(row.Int()), int(row.Int())
		for _, count := range [...]*int32{&j.Runs, &j.Migrations, &j.Resizes, &j.Restarts} {
			*count = int32(row.Int())
		}
	}
	return j, row
}

// appendPlacement appends a placement to a row: its length, and each GPU's distance from the one
// before.
func appendPlacement(row []byte, on cluster.Placement) []byte {
	row = binary.AppendUvarint(row, uint64(len(on)))
	last := cluster.GPU{}
	for _, gpu := range on {
		row = binary.AppendVarint(row, int64(gpu.Node-last.Node))
		row = binary.AppendVarint(row, int64(gpu.Index-last.Index))
		last = gpu
	}
	return row
}

// readPlacement reads what appendPlacement appended; nil if it is empty.
func readPlacement(row *packed.Reader) cluster.Placement {
	n := row.Uint()
	if n == 0 {
		return nil
	}
	on := make(cluster.Placement, n)
	last := cluster.GPU{}
	for i := range on {
		last.Node += cluster.NodeID(row.Int())
		last.Index += int32(row.Int())
		on[i] = last
	}
	return on
}
