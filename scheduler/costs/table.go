package costs

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Row is what is known of one model at one size.
type Row struct {
	Model string // empty: all models without rows
	Tier  string // where checkpoints are stored, as "ram" or "disk"; empty: all tiers without rows

	// Bytes is what the node with the most to move must move: the job's memory on that node's GPUs. 0
	// is for jobs of unknown size.
	Bytes int64

	Save, Load time.Duration

	// Saves and Loads are the numbers of measurements behind the means; 0 for an estimate.
	Saves, Loads int

	// SelfSave is how often the program saves itself: at most that much work is lost when it is
	// killed. 0 means never.
	SelfSave time.Duration
}

// Table is safe for concurrent use: measurements may be added while a scheduler reads.
type Table struct {
	mu     sync.Mutex
	curves map[curveKey][]Row // by bytes
}

// curveKey identifies the rows of one curve.
type curveKey struct{ model, tier string }

// New returns a table of rows. Of two rows with the same model, tier and bytes the last one counts.
func New(rows ...Row) *Table {
	t := &Table{curves: map[curveKey][]Row{}}
	for _, row := range rows {
		t.put(row)
	}
	return t
}

// Tiers returns all tiers that rows name, sorted.
func (t *Table) Tiers() (tiers []string) {
	for _, row := range t.Rows() {
		if row.Tier != "" {
			tiers = append(tiers, row.Tier)
		}
	}
	slices.Sort(tiers)
	return slices.Compact(tiers)
}

// Rows returns the table's rows, sorted by model, tier and bytes.
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

// put inserts a row or replaces the one of the same size.
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

// Find returns the costs of a model that has so many bytes to move: the row of that size, or an
// interpolation between its neighbours. It is the zero Row if nothing is known.
func (t *Table) Find(model, tier string, bytes int64) Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(model, tier, bytes)
}

// find is Find with t.mu held.
func (t *Table) find(model, tier string, bytes int64) Row {
	for _, at := range [...]curveKey{{model, tier}, {model, ""}, {"", tier}, {"", ""}} {
		if curve := t.curves[at]; len(curve) > 0 {
			return interpolate(curve, bytes)
		}
	}
	return Row{}
}

// interpolate returns a point of a curve. Below its first row it is that row; beyond its last it is
// on the line through the last two, or through the origin and the only one. A job of unknown size
// costs the curve's average.
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

// mean returns the average times of a curve's rows, with the first row's SelfSave.
func mean(curve []Row) Row {
	sum := Row{SelfSave: curve[0].SelfSave}
	for _, row := range curve {
		sum.Save += row.Save / time.Duration(len(curve))
		sum.Load += row.Load / time.Duration(len(curve))
	}
	return sum
}

// onLine returns the point for bytes on the line through a and b.
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

// Step is one half of a preemption.
type Step uint8

const (
	// Save is the time from the decision until the GPUs are free.
	Save Step = iota
	// Load is the time from when the GPUs are free until the job works.
	Load
)

// maxSamples bounds the weight of old measurements in a mean, so that it follows machines that
// change.
const maxSamples = 32

// sizeTolerance is the relative difference up to which two sizes count as equal.
const sizeTolerance = 0.1

// Learn adds a measurement. It replaces an estimate, or joins the mean of earlier measurements.
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

// nearest returns the row that a measurement belongs to: one of about the same size, or a new one
// with values interpolated from its neighbours.
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

// For returns the table as a scheduler's Costs, for checkpoints on a tier.
func (t *Table) For(tier string) scheduler.Costs { return tierCosts{t, tier} }

// tierCosts implements scheduler.Costs.
type tierCosts struct {
	table *Table
	tier  string
}

// Save returns the cost of saving the job on its current GPUs.
func (a tierCosts) Save(j *scheduler.Job) time.Duration {
	return a.table.Find(j.Model(), a.tier, Bytes(j, j.Placement())).Save
}

// Load returns 0 for a job that never ran: it has no checkpoint.
func (a tierCosts) Load(j *scheduler.Job, on cluster.Placement) time.Duration {
	if _, ran := j.FirstStart(); !ran {
		return 0
	}
	return a.table.Find(j.Model(), a.tier, Bytes(j, on)).Load
}

// Lost returns the work since the program last saved itself, or all work of the run.
func (a tierCosts) Lost(j *scheduler.Job, now time.Duration) time.Duration {
	worked := j.Worked(now)
	every := a.table.Find(j.Model(), a.tier, Bytes(j, j.Placement())).SelfSave
	if every <= 0 {
		return scheduler.Work(worked, j.Speed())
	}
	return scheduler.Work(worked%every, j.Speed())
}

// Bytes returns what the node with the most of a job's GPUs must move.
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
