package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/phos-gpu/phos/daemon/config"
)

// speeds are groups of rows of tests/bench. Those with a checkpoint are measured for each size of
// device memory.
var speeds = []struct {
	name, group string
	model       string // of PyTorch, whose steps are measured
	sized       bool
	needs       []fact
	about       time.Duration
}{
	{name: "calls", group: "calls", needs: runNeeds, about: 40 * time.Second},
	{
		name:  "steps-gpt2",
		group: "steps",
		model: "gpt2",
		needs: append([]fact{hasTorch}, runNeeds...),
		about: 2 * time.Minute,
	},
	{
		name:  "steps-decode",
		group: "steps",
		model: "decode",
		needs: append([]fact{hasTorch}, runNeeds...),
		about: time.Minute,
	},
	{
		name:  "steps-resnet50",
		group: "steps",
		model: "resnet50",
		needs: append([]fact{hasTorch}, runNeeds...),
		about: 90 * time.Second,
	},
	{name: "driver", group: "driver", sized: true, needs: append([]fact{hasShared}, checkpointNeeds...)},
}

// measured is the suite that the groups belong to.
var measured = suite{part: "bench", directory: "tests/bench"}

// benchRows returns the groups, by size where it matters.
func benchRows(m *machine) []row {
	rows := []row{{"bench", "digests", []fact{hasGPU}, 20 * time.Second, 3 * time.Minute, digestRate}}
	for _, s := range speeds {
		if !s.sized {
			rows = append(
				rows,
				row{
					"bench",
					s.name,
					s.needs,
					s.about,
					9 * time.Minute,
					func(ctx context.Context, m *machine) ([]figure, error) {
						return measure(ctx, m, s.group, "PHOS_BENCH_MODELS="+s.model)
					},
				},
			)
			continue
		}
		for _, bytes := range m.sizes {
			size, _ := config.Size(bytes).MarshalText()
			// The saved memory is written, saved and read several times.
			about := 40*time.Second + time.Duration(bytes>>30)*4*time.Second
			rows = append(
				rows,
				row{
					"bench",
					s.name + "-" + string(size),
					s.needs,
					about,
					9 * time.Minute,
					func(ctx context.Context, m *machine) ([]figure, error) {
						if bytes > m.deviceBytes/10*9 {
							return nil, skip{fmt.Sprintf("the GPU has %d MiB", m.deviceBytes>>20)}
						}
						return measure(ctx, m, s.group, "PHOS_BENCH_SIZE="+string(size))
					},
				},
			)
		}
	}
	return rows
}

// measure runs one group and reads the figures that it writes.
func measure(ctx context.Context, m *machine, group string, settings ...string) ([]figure, error) {
	dir, err := os.MkdirTemp("", "phos-gpu-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	command, err := measured.command(ctx, m, "-test.run=^TestSpeed$")
	if err != nil {
		return nil, err
	}
	command.Env = append(command.Env, "PHOS_BENCH="+group, "PHOS_BENCH_WRITE="+dir, "PHOS_BENCH_ROUNDS=2",
		fmt.Sprintf("PHOS_BENCH_HOST_MEMORY=%d", m.hostBytes))
	command.Env = append(command.Env, settings...)
	output, err := command.CombinedOutput()
	if err != nil {
		return nil, m.failure("bench-"+group, err, output)
	}
	written, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(written) != 1 {
		return nil, fmt.Errorf("the bench wrote %d results\n%s", len(written), complaint(output))
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
		return nil, fmt.Errorf("parse the bench's results: %w", err)
	}
	var figures []figure
	for _, s := range result.Sections {
		figures = append(figures, s.Rows...)
	}
	if len(figures) == 0 {
		return nil, skip{complaint(output)}
	}
	return figures, nil
}

// digestRate runs the test of digests over several times the smallest saved size, as far as the
// device has memory.
func digestRate(ctx context.Context, m *machine) ([]figure, error) {
	file, err := os.CreateTemp("", "phos-gpu-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	command, err := suites[0].command(ctx, m, "-test.run=^TestDigestRate$")
	if err != nil {
		return nil, err
	}
	command.Env = append(
		command.Env,
		"PHOS_FIGURES="+file.Name(),
		fmt.Sprintf("PHOS_FIGURES_MIB=%d", min(4*m.sizes[0]>>20, m.deviceBytes>>22)),
	)
	if output, err := command.CombinedOutput(); err != nil {
		return nil, m.failure("bench-digests", err, output)
	}
	var figures []figure
	if err := json.NewDecoder(file).Decode(&figures); err != nil {
		return nil, fmt.Errorf("parse the test's results: %w", err)
	}
	return figures, nil
}
