package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// Difference is what differs between two generations.
type Difference struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Totals are by kind of state.
	Totals struct {
		GPU   Total `json:"gpu"`
		CPU   Total `json:"cpu"`
		Files Total `json:"files"`
	} `json:"totals"`
	// Processes are those that differ, or that only one generation has.
	Processes []ProcessDifference `json:"processes"`
	// CPU are CRIU's files; Files are the saved regular files, by path.
	CPU   []FileDifference `json:"cpu"`
	Files []FileDifference `json:"files"`
}

// Change says how something differs.
type Change string

// Kinds of Change.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
)

// ProcessDifference is what differs in one process.
type ProcessDifference struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Change  Change `json:"change"`
	// Memory is by name; Files is the rest of the GPU half.
	Memory []MemoryDifference `json:"memory,omitempty"`
	Files  []FileDifference   `json:"files,omitempty"`
	// Objects are the numbers of objects by kind, before and after.
	Objects map[string][2]uint64 `json:"objects,omitempty"`
}

// MemoryDifference is what differs in one memory.
type MemoryDifference struct {
	Name string `json:"name"`
	// TotalBytes is the size in the later generation.
	TotalBytes   uint64  `json:"total_bytes"`
	ChangedBytes uint64  `json:"changed_bytes"`
	Ranges       []Range `json:"ranges"`
}

// Range is memory that differs.
type Range struct {
	Address uint64 `json:"address"`
	Bytes   uint64 `json:"bytes"`
	Change  Change `json:"change"`
}

// FileDifference is a file that differs.
type FileDifference struct {
	Name        string `json:"name"`
	Change      Change `json:"change"`
	BytesBefore uint64 `json:"bytes_before"`
	BytesAfter  uint64 `json:"bytes_after"`
	// ChangedBytes is the size of the chunks that differ.
	ChangedBytes uint64 `json:"changed_bytes"`
}

// Diff compares two generations. It compares only hashes, which is fast.
func (d *Dir) Diff(ctx context.Context, from, to uint64) (*Difference, error) {
	reader, done, err := d.Reader()
	if err != nil {
		return nil, err
	}
	defer done()
	var sides [2]side
	for i, n := range []uint64{from, to} {
		if sides[i].manifest, err = d.Inspect(n); err != nil {
			return nil, fmt.Errorf("compare generation %d: %w", n, err)
		}
		sides[i].reader = reader
	}
	difference := &Difference{
		From: sides[0].manifest.Generation, To: sides[1].manifest.Generation, Processes: []ProcessDifference{},
	}
	if err := difference.saved(sides); err != nil {
		return nil, err
	}
	if err := difference.addProcesses(ctx, sides); err != nil {
		return nil, err
	}
	before, err := sides[0].tree(sides[0].manifest.CPU.Tree)
	if err != nil {
		return nil, err
	}
	after, err := sides[1].tree(sides[1].manifest.CPU.Tree)
	if err != nil {
		return nil, err
	}
	_, difference.CPU = diffTrees(before, after, &difference.Totals.CPU)
	return difference, nil
}

// side is one of two generations.
type side struct {
	manifest *image.Manifest
	reader   *contents.Reader
}

// tree reads a tree; an empty one for an empty name.
func (s side) tree(name string) (*image.Tree, error) {
	if name == "" {
		return &image.Tree{}, nil
	}
	h, err := image.ParseHash(name)
	if err != nil {
		return nil, err
	}
	return s.reader.Tree(h)
}

// gpuTree returns the tree of a process's GPU half; an empty one if it has none.
func (s side) gpuTree(process *image.Process) (*image.Tree, error) {
	if process == nil || process.GPU == nil {
		return &image.Tree{}, nil
	}
	return s.tree(process.GPU.Tree)
}

// process returns the process with this pid, or nil.
func (s side) process(pid int) *image.Process {
	for i := range s.manifest.Processes {
		if s.manifest.Processes[i].PID == pid {
			return &s.manifest.Processes[i]
		}
	}
	return nil
}

// addProcesses compares the processes of both sides by pid and appends those that differ.
func (d *Difference) addProcesses(ctx context.Context, sides [2]side) error {
	seen := map[int]bool{}
	for _, process := range slices.Concat(sides[0].manifest.Processes, sides[1].manifest.Processes) {
		if seen[process.PID] {
			continue
		}
		seen[process.PID] = true
		if err := ctx.Err(); err != nil {
			return err
		}
		each, differs, err := diffProcess(sides, process, &d.Totals.GPU)
		if err != nil {
			return fmt.Errorf("pid %d: %w", process.PID, err)
		}
		if differs {
			d.Processes = append(d.Processes, each)
		}
	}
	return nil
}

// diffProcess compares one process, which may exist on one side only, and adds to total.
func diffProcess(sides [2]side, either image.Process, total *Total) (out ProcessDifference, differs bool, err error) {
	out = ProcessDifference{PID: either.PID, Command: either.Command, Change: Changed}
	before, after := sides[0].process(either.PID), sides[1].process(either.PID)
	switch {
	case before == nil:
		out.Change = Added
	case after == nil:
		out.Change = Removed
	}
	was, err := sides[0].gpuTree(before)
	if err != nil {
		return out, false, err
	}
	is, err := sides[1].gpuTree(after)
	if err != nil {
		return out, false, err
	}
	out.Memory, out.Files = diffTrees(was, is, total)
	out.Objects = diffObjects(before, after)
	renamed := before != nil && after != nil && (before.Command != after.Command || before.Threads != after.Threads)
	return out, out.Change != Changed || renamed || len(out.Memory)+len(out.Files)+len(out.Objects) > 0, nil
}

// diffObjects returns the kinds of GPU objects whose counts differ, with both counts.
func diffObjects(before, after *image.Process) map[string][2]uint64 {
	counts := map[string][2]uint64{}
	for i, process := range []*image.Process{before, after} {
		if process == nil || process.GPU == nil {
			continue
		}
		for kind, n := range process.GPU.Objects {
			both := counts[kind]
			both[i] = n
			counts[kind] = both
		}
	}
	maps.DeleteFunc(counts, func(_ string, both [2]uint64) bool { return both[0] == both[1] })
	return counts
}

// diffTrees compares entries by name and adds them to a total.
func diffTrees(before, after *image.Tree, total *Total) (memory []MemoryDifference, files []FileDifference) {
	files = []FileDifference{}
	type pair struct{ was, is image.Entry }
	pairs := map[string]*pair{}
	at := func(name string) *pair {
		if pairs[name] == nil {
			pairs[name] = &pair{}
		}
		return pairs[name]
	}
	for _, each := range before.Entries {
		at(each.Name).was = each
	}
	for _, each := range after.Entries {
		at(each.Name).is = each
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		p := pairs[name]
		total.add(p.was.Chunks, p.is.Chunks)
		if p.was.Kind == image.Memory || p.is.Kind == image.Memory {
			if m := diffMemory(name, p.was.Chunks, p.is.Chunks); len(m.Ranges) > 0 {
				memory = append(memory, m)
			}
			continue
		}
		if f, differs := diffFile(name, p.was, p.is); differs {
			files = append(files, f)
		}
	}
	return memory, files
}

// diffFile compares a file; an entry of kind 0 means that the side does not have it.
func diffFile(name string, was, is image.Entry) (f FileDifference, differs bool) {
	f = FileDifference{Name: name, Change: Changed, BytesBefore: was.Bytes, BytesAfter: is.Bytes}
	switch {
	case was.Kind == 0:
		f.Change = Added
	case is.Kind == 0:
		f.Change = Removed
	}
	f.ChangedBytes = diffMemory(name, was.Chunks, is.Chunks).ChangedBytes
	return f, f.Change != Changed || f.BytesBefore != f.BytesAfter || f.ChangedBytes > 0
}

// diffMemory compares chunks by address and merges adjacent ranges with the same change.
func diffMemory(name string, before, after []image.Chunk) MemoryDifference {
	out := MemoryDifference{Name: name, Ranges: []Range{}}
	was := make(map[uint64]image.Chunk, len(before))
	for _, chunk := range before {
		was[chunk.Address] = chunk
	}
	var ranges []Range
	for _, chunk := range after {
		out.TotalBytes += uint64(chunk.Bytes)
		old, ok := was[chunk.Address]
		delete(was, chunk.Address)
		if ok && old.Hash == chunk.Hash && old.Bytes == chunk.Bytes {
			continue
		}
		change := Changed
		if !ok {
			change = Added
		}
		ranges = append(ranges, Range{chunk.Address, uint64(chunk.Bytes), change})
	}
	for _, chunk := range was {
		ranges = append(ranges, Range{chunk.Address, uint64(chunk.Bytes), Removed})
	}
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Address, b.Address) })
	for _, each := range ranges {
		out.ChangedBytes += each.Bytes
		if n := len(out.Ranges); n > 0 && out.Ranges[n-1].Change == each.Change &&
			out.Ranges[n-1].Address+out.Ranges[n-1].Bytes == each.Address {
			out.Ranges[n-1].Bytes += each.Bytes
			continue
		}
		out.Ranges = append(out.Ranges, each)
	}
	return out
}
