package costs

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// Row is what is known of one model at one size.
type Row struct {
	Model string // empty stands for all models that have no rows
	Tier  string // where checkpoints are kept, as "ram" or "disk"; empty stands for all tiers that have no rows

	// Bytes is what the node that has the most to move must move: its GPUs' memory that the job holds.
	// 0 is for jobs of which nobody said.
	Bytes int64

	Save, Load time.Duration

	// Saves and Loads are how many measurements the two are the mean of; 0 where they are somebody's
	// estimate.
	Saves, Loads int

	// SelfSave is how often the program saves itself: no more than that is lost when it is killed. 0
	// means never.
	SelfSave time.Duration
}

// Table is safe for concurrent use: one may learn while a scheduler asks.
type Table struct {
	mu     sync.Mutex
	curves map[curveKey][]Row // by bytes
}

// curveKey is whose rows make up one curve.
type curveKey struct{ model, tier string }

// New is a table of rows. Of two rows of the same model, tier and bytes the last one counts.
func New(rows ...Row) *Table {
	t := &Table{curves: map[curveKey][]Row{}}
	for _, row := range rows {
		t.put(row)
	}
	return t
}

// Tiers are all tiers that rows name, sorted.
func (t *Table) Tiers() (tiers []string) {
	for _, row := range t.Rows() {
		if row.Tier != "" {
			tiers = append(tiers, row.Tier)
		}
	}
	slices.Sort(tiers)
	return slices.Compact(tiers)
}

// Rows are the table's rows, sorted by model, tier and bytes.
func (t *Table) Rows() []Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows []Row
	for _, curve := range t.curves {
		rows = append(rows, curve...)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Bytes, b.Bytes))
	})
	return rows
}

func (t *Table) put(row Row) {
	at := curveKey{row.Model, row.Tier}
	curve := t.curves[at]
	i, found := slices.BinarySearchFunc(curve, row.Bytes, byBytes)
	if found {
		curve[i] = row
		return
	}
	t.curves[at] = slices.Insert(curve, i, row)
}

func byBytes(row Row, bytes int64) int { return cmp.Compare(row.Bytes, bytes) }

// Find is what is known of a model that has so many bytes to move: the row of that size, or the
// line between its neighbours. It is the zero Row where nothing is known at all.
func (t *Table) Find(model, tier string, bytes int64) Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(model, tier, bytes)
}

func (t *Table) find(model, tier string, bytes int64) Row {
	for _, at := range [...]curveKey{{model, tier}, {model, ""}, {"", tier}, {"", ""}} {
		if curve := t.curves[at]; len(curve) > 0 {
			return interpolate(curve, bytes)
		}
	}
	return Row{}
}

// interpolate is a point of a curve: below its first row as there, beyond its last on the line through the
// last two, or through the origin and the only one. A job whose size nobody knows costs what its
// model costs on average.
func interpolate(curve []Row, bytes int64) Row {
	i, found := slices.BinarySearchFunc(curve, bytes, byBytes)
	last := len(curve) - 1
	switch {
	case found:
		return curve[i]
	case bytes == 0:
		return mean(curve)
	case i == 0:
		return curve[0]
	case i <= last:
		return onLine(curve[i-1], curve[i], bytes)
	case last > 0 && curve[last-1].Bytes > 0:
		return onLine(curve[last-1], curve[last], bytes)
	}
	return onLine(Row{SelfSave: curve[last].SelfSave}, curve[last], bytes)
}

func mean(curve []Row) Row {
	sum := Row{SelfSave: curve[0].SelfSave}
	for _, row := range curve {
		sum.Save += row.Save / time.Duration(len(curve))
		sum.Load += row.Load / time.Duration(len(curve))
	}
	return sum
}

func onLine(a, b Row, bytes int64) Row {
	if a.Bytes == b.Bytes {
		return b
	}
	along := float64(bytes-a.Bytes) / float64(b.Bytes-a.Bytes)
	line := func(from, to time.Duration) time.Duration {
		return time.Duration(min(max(0, float64(from)+along*float64(to-from)), math.MaxInt64/8))
	}
	return Row{Bytes: bytes, Save: line(a.Save, b.Save), Load: line(a.Load, b.Load), SelfSave: b.SelfSave}
}

// Step is a half of what a preemption costs.
type Step uint8

const (
	// Save is from the decision until the GPUs are free.
	Save Step = iota
	// Load is from when the GPUs are free until the job works.
	Load
)

// maxSamples is how many measurements a mean remembers: more would keep it from following machines that
// change.
const maxSamples = 32

// sizeTolerance is how much two sizes may differ to count as the same.
const sizeTolerance = 0.1

// Learn enters a measurement: where there was an estimate it takes its place, where there were
// measurements it joins their mean.
func (t *Table) Learn(model, tier string, bytes int64, step Step, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.nearest(model, tier, bytes)
	mean, count := &row.Save, &row.Saves
	if step == Load {
		mean, count = &row.Load, &row.Loads
	}
	*count++
	*mean += (took - *mean) / time.Duration(min(*count, maxSamples))
	t.put(row)
}

// nearest is the row that a measurement is about: one of about the size, or a new one that takes
// over what is known of its neighbours.
func (t *Table) nearest(model, tier string, bytes int64) Row {
	for _, row := range t.curves[curveKey{model, tier}] {
		if math.Abs(float64(row.Bytes-bytes)) <= sizeTolerance*float64(bytes) {
			return row
		}
	}
	row := t.find(model, tier, bytes)
	row.Model, row.Tier, row.Bytes, row.Saves, row.Loads = model, tier, bytes, 0, 0
	return row
}

// For is the table as a scheduler asks it, for checkpoints that are kept on a tier.
func (t *Table) For(tier string) scheduler.Costs { return tierCosts{t, tier} }

type tierCosts struct {
	table *Table
	tier  string
}

// Save is what the table says of the GPUs that the job has.
func (a tierCosts) Save(j *scheduler.Job) time.Duration {
	return a.table.Find(j.Model(), a.tier, Bytes(j, j.Placement())).Save
}

// Load is nothing for a job that never ran: there is no checkpoint of it.
func (a tierCosts) Load(j *scheduler.Job, on cluster.Placement) time.Duration {
	if _, ran := j.FirstStart(); !ran {
		return 0
	}
	return a.table.Find(j.Model(), a.tier, Bytes(j, on)).Load
}

// Lost is what a job has done since it last saved itself, or in all of its run.
func (a tierCosts) Lost(j *scheduler.Job, now time.Duration) time.Duration {
	worked := j.Worked(now)
	every := a.table.Find(j.Model(), a.tier, Bytes(j, j.Placement())).SelfSave
	if every <= 0 {
		return scheduler.Work(worked, j.Speed())
	}
	return scheduler.Work(worked%every, j.Speed())
}

// Bytes is what the node with the most of a job's GPUs has to move.
func Bytes(j *scheduler.Job, on cluster.Placement) int64 {
	most, here := 0, 0
	for i, gpu := range on {
		if i > 0 && on[i-1].Node != gpu.Node {
			here = 0
		}
		here++
		most = max(most, here)
	}
	return int64(most) * j.GPUMemoryBytes()
}
