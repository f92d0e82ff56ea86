package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// speeds are groups of rows of tests/bench, each with so much device memory.
var speeds = []struct {
	group string
	sizes []uint64 // in GiB; none: the size does not matter
	needs []fact
	limit time.Duration
}{
	{"calls", nil, []fact{hasGPU, isRoot}, 2 * time.Minute},
	{"steps", nil, []fact{hasGPU, isRoot, hasTorch}, 8 * time.Minute},
	{"digest", nil, []fact{hasGPU, isRoot}, 2 * time.Minute},
	{"pause", []uint64{1, 8, 32, 80}, []fact{hasGPU, isRoot, hasCRIU, mayTrace, mayMount, mayFreeze}, 9 * time.Minute},
	{"driver", []uint64{1, 8, 32, 80}, []fact{hasGPU, isRoot, hasCRIU, mayTrace, mayMount}, 9 * time.Minute},
	{"restore", []uint64{1, 8, 32, 80}, []fact{hasGPU, isRoot, hasCRIU, mayTrace, mayMount, mayFreeze}, 9 * time.Minute},
}

// measured is the suite that the groups belong to.
var measured = suite{part: "bench", directory: "tests/bench"}

// benchRows are the groups, by size where it matters.
func benchRows() (rows []row) {
	for _, s := range speeds {
		if s.sizes == nil {
			rows = append(rows, row{"bench", s.group, s.needs, s.limit, func(ctx context.Context, m *machine) ([]figure, error) {
				return measure(ctx, m, s.group, 1)
			}})
		}
		for _, size := range s.sizes {
			rows = append(rows, row{"bench", fmt.Sprintf("%s-%dGiB", s.group, size), s.needs, s.limit, func(ctx context.Context, m *machine) ([]figure, error) {
				if why := m.tooSmall(size << 30); why != "" {
					return nil, skip{why}
				}
				return measure(ctx, m, s.group, size)
			}})
		}
	}
	return rows
}

// tooSmall says why so much device memory cannot be had, or saved.
func (m *machine) tooSmall(bytes uint64) string {
	if bytes > m.deviceBytes/10*9 {
		return fmt.Sprintf("the GPU has %d GiB", m.deviceBytes>>30)
	}
	// The driver's own checkpoint keeps device memory in the host's.
	if bytes > m.hostBytes/10*8 {
		return fmt.Sprintf("the host has %d GiB of memory", m.hostBytes>>30)
	}
	return ""
}

// measure runs one group and reads the figures that it writes.
func measure(ctx context.Context, m *machine, group string, gibibytes uint64) ([]figure, error) {
	dir, err := os.MkdirTemp("", "phos-gpu-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	command := measured.command(ctx, m, "-test.v", "-test.run=^TestSpeed$")
	command.Env = append(command.Env, "PHOS_BENCH="+group, "PHOS_BENCH_WRITE="+dir, "PHOS_BENCH_ROUNDS=1",
		fmt.Sprintf("PHOS_BENCH_SIZE=%dGiB", gibibytes))
	output, err := command.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, complaint(output))
	}
	written, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(written) != 1 {
		return nil, skip{complaint(output)}
	}
	text, err := os.ReadFile(written[0])
	if err != nil {
		return nil, err
	}
	var result struct {
		Sections []struct {
			Rows []figure `json:"rows"`
		} `json:"sections"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, fmt.Errorf("what the bench wrote: %w", err)
	}
	var figures []figure
	for _, s := range result.Sections {
		figures = append(figures, s.Rows...)
	}
	return figures, nil
}
