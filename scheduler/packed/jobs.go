package packed

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Jobs is a list of jobs. Its methods may be called at the same time, except Add and Sort.
type Jobs struct {
	rows    Rows
	places  []Place // by index
	words   []string
	numbers map[string]uint64 // of words
	row     []byte            // of Add
}

// Of returns a list of jobs.
func Of(jobs ...cluster.Job) *Jobs {
	l := &Jobs{}
	for i := range jobs {
		l.Add(&jobs[i])
	}
	return l
}

// What a row has besides the number, the submission, the length and the GPUs. Most jobs have
// nothing of this.
const (
	hasName     = 1 << iota
	hasEstimate // that is not the length
	hasShare    // that is not the whole GPU
	hasBounds
	hasType
	hasMemory
	hasConstraint
	hasUser
	hasPriority
	hasModel
	isFixed
)

// Add adds a job at the end.
func (l *Jobs) Add(j *cluster.Job) {
	row := binary.AppendVarint(l.row[:0], int64(j.ID))
	row = AppendTime(row, j.Submit)
	has := contents(j)
	row = binary.AppendUvarint(row, has)
	row = binary.AppendVarint(AppendTime(row, j.Length), int64(j.GPUs))
	if has != 0 {
		row = l.appendOthers(row, has, j)
	}
	l.row = row
	l.places = append(l.places, l.rows.Add(row))
}

// contents returns what the row of a job has.
func contents(j *cluster.Job) (has uint64) {
	for _, part := range [...]struct {
		bit uint64
		is  bool
	}{
		{hasName, j.Name != ""},
		{hasEstimate, j.Estimate != j.Length},
		{hasShare, j.Share != cluster.WholeGPU},
		{hasBounds, j.MinGPUs != 0 || j.MaxGPUs != 0},
		{hasType, j.GPUType != ""},
		{hasMemory, j.GPUMemoryBytes != 0},
		{hasConstraint, j.Constraint != ""},
		{hasUser, j.User != ""},
		{hasPriority, j.Priority != 0},
		{hasModel, j.Model != ""},
		{isFixed, j.Fixed},
	} {
		if part.is {
			has |= part.bit
		}
	}
	return has
}

// appendOthers appends what most jobs do not have.
func (l *Jobs) appendOthers(row []byte, has uint64, j *cluster.Job) []byte {
	if has&hasName != 0 {
		row = AppendText(row, j.Name)
	}
	if has&hasEstimate != 0 {
		row = AppendTime(row, j.Estimate)
	}
	if has&hasShare != 0 {
		row = binary.AppendVarint(row, int64(j.Share))
	}
	if has&hasBounds != 0 {
		row = binary.AppendVarint(binary.AppendVarint(row, int64(j.MinGPUs)), int64(j.MaxGPUs))
	}
	if has&hasMemory != 0 {
		row = binary.AppendVarint(row, j.GPUMemoryBytes)
	}
	if has&hasPriority != 0 {
		row = binary.AppendVarint(row, int64(j.Priority))
	}
	for _, word := range [...]struct {
		bit  uint64
		text string
	}{{hasType, j.GPUType}, {hasConstraint, j.Constraint}, {hasUser, j.User}, {hasModel, j.Model}} {
		if has&word.bit != 0 {
			row = binary.AppendUvarint(row, l.number(word.text))
		}
	}
	return row
}

// number returns the number of a word. A million jobs have few users, models and types.
func (l *Jobs) number(word string) uint64 {
	n, known := l.numbers[word]
	if !known {
		if l.numbers == nil {
			l.numbers = map[string]uint64{}
		}
		n = uint64(len(l.words))
		l.words, l.numbers[word] = append(l.words, word), n
	}
	return n
}

// Len returns the number of jobs; that of nil is 0.
func (l *Jobs) Len() int {
	if l == nil {
		return 0
	}
	return len(l.places)
}

// At returns the job at an index.
func (l *Jobs) At(i int) (j cluster.Job) {
	r := l.rows.From(l.places[i])
	j.ID, j.Submit = cluster.JobID(r.Int()), r.Time()
	has := r.Uint()
	j.Length, j.GPUs = r.Time(), int(r.Int())
	j.Estimate, j.Share = j.Length, cluster.WholeGPU
	if has != 0 {
		l.readOthers(&r, has, &j)
	}
	return j
}

// readOthers reads what appendOthers appended.
func (l *Jobs) readOthers(r *Reader, has uint64, j *cluster.Job) {
	j.Fixed = has&isFixed != 0
	if has&hasName != 0 {
		j.Name = r.Text()
	}
	if has&hasEstimate != 0 {
		j.Estimate = r.Time()
	}
	if has&hasShare != 0 {
		j.Share = int(r.Int())
	}
	if has&hasBounds != 0 {
		j.MinGPUs, j.MaxGPUs = int(r.Int()), int(r.Int())
	}
	if has&hasMemory != 0 {
		j.GPUMemoryBytes = r.Int()
	}
	if has&hasPriority != 0 {
		j.Priority = int(r.Int())
	}
	for _, word := range [...]struct {
		bit  uint64
		text *string
	}{{hasType, &j.GPUType}, {hasConstraint, &j.Constraint}, {hasUser, &j.User}, {hasModel, &j.Model}} {
		if has&word.bit != 0 {
			*word.text = l.words[r.Uint()]
		}
	}
}

// ID returns the number of the job at an index.
func (l *Jobs) ID(i int) cluster.JobID {
	r := l.rows.From(l.places[i])
	return cluster.JobID(r.Int())
}

// Submit returns when the job at an index arrives.
func (l *Jobs) Submit(i int) time.Duration {
	r := l.rows.From(l.places[i])
	r.Int()
	return r.Time()
}

// All returns the jobs with their indices.
func (l *Jobs) All() iter.Seq2[int, cluster.Job] {
	return func(yield func(int, cluster.Job) bool) {
		for i := range l.Len() {
			if !yield(i, l.At(i)) {
				return
			}
		}
	}
}

// Slice returns the jobs, unpacked.
func (l *Jobs) Slice() []cluster.Job {
	jobs := make([]cluster.Job, l.Len())
	for i := range jobs {
		jobs[i] = l.At(i)
	}
	return jobs
}

// Map returns the jobs as a function changes them.
func (l *Jobs) Map(change func(i int, j *cluster.Job)) *Jobs {
	changed := &Jobs{places: make([]Place, 0, l.Len())}
	for i, j := range l.All() {
		change(i, &j)
		changed.Add(&j)
	}
	return changed
}

// arrival is a job with what comes first in the order of arrival.
type arrival struct {
	submit time.Duration
	index  int32
}

// Arrivals returns the indices of the jobs by arrival, then by number.
func (l *Jobs) Arrivals() []int32 {
	order := make([]int32, l.Len())
	sorted := l.arrivals(func(a, b int) int { return cmp.Compare(l.ID(a), l.ID(b)) })
	for i := range order {
		order[i] = int32(i)
		if sorted != nil {
			order[i] = sorted[i].index
		}
	}
	return order
}

// Sort sorts the jobs by arrival, then as compare says, and leaves equal ones in their order.
func (l *Jobs) Sort(compare func(a, b *cluster.Job) int) {
	sorted := l.arrivals(func(a, b int) int {
		first, second := l.At(a), l.At(b)
		return compare(&first, &second)
	})
	if sorted == nil {
		return
	}
	places := make([]Place, len(sorted))
	for i := range sorted {
		places[i] = l.places[sorted[i].index]
	}
	l.places = places
}

// arrivals returns the jobs by arrival, then as compare says, then by index; nil if they are in
// this order.
func (l *Jobs) arrivals(compare func(a, b int) int) (all []arrival) {
	inOrder := func(i int) bool {
		before, after := l.Submit(i-1), l.Submit(i)
		return before < after || before == after && compare(i-1, i) <= 0
	}
	i := 1
	for i < l.Len() && inOrder(i) {
		i++
	}
	if i >= l.Len() {
		return nil
	}
	all = make([]arrival, l.Len())
	for i := range all {
		all[i] = arrival{l.Submit(i), int32(i)}
	}
	slices.SortFunc(all, func(a, b arrival) int {
		return cmp.Or(
			cmp.Compare(a.submit, b.submit),
			compare(int(a.index), int(b.index)),
			cmp.Compare(a.index, b.index),
		)
	})
	return all
}
