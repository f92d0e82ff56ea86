package ckpt

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/ckpt/image"
)

// NeededFile is a program or library of the host that the processes of an image open again.
type NeededFile struct {
	Path    string
	BuildID []byte
}

// Examiner is a CPU that can list the needed files of its images before a restore.
type Examiner interface {
	// Needed reads files of a dump by their names; read returns fs.ErrNotExist if there is none.
	Needed(read func(name string) ([]byte, error)) ([]NeededFile, error)
}

// maxListBytes is an upper bound for a list of files.
const maxListBytes = 64 << 20

// Needed returns the needed files of all processes; none if the CPU is not an Examiner.
func (s *Source) Needed(cpu CPU) (found []NeededFile, err error) {
	examiner, ok := cpu.(Examiner)
	if !ok || s.Manifest.CPU.Tree == "" {
		return nil, nil
	}
	hash, err := image.ParseHash(s.Manifest.CPU.Tree)
	if err != nil {
		return nil, err
	}
	tree, err := s.Reader.Tree(hash)
	if err != nil {
		return nil, err
	}
	for _, root := range rootsOf(s.Manifest) {
		needed, err := examiner.Needed(func(name string) ([]byte, error) {
			return s.readFile(tree, strconv.Itoa(root)+"/"+name)
		})
		if err != nil {
			return nil, fmt.Errorf("files of pid %d: %w", root, err)
		}
		found = append(found, needed...)
	}
	return found, nil
}

// readFile returns the content of a small file of a tree.
func (s *Source) readFile(tree *image.Tree, name string) ([]byte, error) {
	for _, entry := range tree.Entries {
		if entry.Name != name || entry.Kind != image.File {
			continue
		}
		if entry.Bytes > maxListBytes {
			return nil, fmt.Errorf("%w: %s has %d bytes", image.ErrMalformed, name, entry.Bytes)
		}
		content := make([]byte, entry.Bytes)
		if _, err := s.Reader.Open(entry).ReadAt(content, 0); err != nil {
			return nil, err
		}
		return content, nil
	}
	return nil, fs.ErrNotExist
}

// worthNoting is the least memory whose way back is worth a note: it takes some 50 ms.
const worthNoting = 64 << 20

// MemoryNotes says how much memory of an image has to be there before its programs run, and why. It
// is no obstacle to a restore, which only takes longer.
func (s *Source) MemoryNotes(ctx context.Context, cpu CPU) ([]Obstacle, error) {
	loader, ok := cpu.(LazyLoader)
	if !ok || s.Manifest.CPU.Tree == "" {
		return nil, nil
	}
	total := MemoryPlan{Early: map[string]uint64{}}
	for _, root := range rootsOf(s.Manifest) {
		plan, err := loader.Plan(s.Reader, s.Manifest.CPU.Tree, root)
		if err != nil {
			return nil, fmt.Errorf("memory of pid %d: %w", root, err)
		}
		total.LazyBytes += plan.LazyBytes
		for why, bytes := range plan.Early {
			total.Early[why] += bytes
		}
	}
	if !loader.CanLoad(ctx, s.Manifest.Owner.UID) {
		return total.noteAll(), nil
	}
	return total.noteEarly(), nil
}

// noteAll notes that this host restores no memory lazily.
func (p MemoryPlan) noteAll() []Obstacle {
	if p.LazyBytes < worthNoting {
		return nil
	}
	return []Obstacle{{
		Subject: "memory", Harmless: true,
		Reason: mebibytes(p.LazyBytes) + " could come back while the program runs, and come before: this kernel or CRIU " +
			"cannot do it; scripts/criu.sh builds a CRIU that can",
	}}
}

// noteEarly notes what is not restored lazily.
func (p MemoryPlan) noteEarly() []Obstacle {
	var parts []string
	early := uint64(0)
	for _, why := range slices.Sorted(maps.Keys(p.Early)) {
		early += p.Early[why]
		parts = append(parts, mebibytes(p.Early[why])+" "+why)
	}
	if early < worthNoting {
		return nil
	}
	return []Obstacle{{
		Subject: "memory", Harmless: true,
		Reason: fmt.Sprintf("%s come back before the program runs: %s; %s while it runs",
			mebibytes(early), strings.Join(parts, ", "), mebibytes(p.LazyBytes)),
	}}
}

func mebibytes(bytes uint64) string { return fmt.Sprintf("%.4g MiB", float64(bytes)/(1<<20)) }
