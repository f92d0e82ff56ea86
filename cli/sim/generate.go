package sim

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/workload"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
)

// generatorFlags are the flags that describe generated jobs.
type generatorFlags struct {
	kind   string
	params generator.Parameters
}

// flags registers all flags but the load: sim generate takes one load, sim compare many.
func (m *generatorFlags) flags(flags *flag.FlagSet) {
	flags.IntVar(&m.params.Jobs, "count", 1000, "generate `N` jobs")
	flags.Float64Var(&m.params.JobsPerHour, "jobs-per-hour", 0, "`N` arrivals an hour, instead of a load")
	flags.Func(
		"lengths",
		"`LAW` of the jobs' lengths: blox, exponential:MEAN, uniform:LEAST-MOST or fixed:LENGTH, "+
			"with times such as 90m; default: blox",
		func(text string) (err error) {
			m.params.Lengths, err = generator.ParseLaw(text)
			return err
		},
	)
	flags.Func(
		"sizes",
		"`MIX` of GPUs that jobs need, by weight, such as 1:70,2:10,4:15,8:5; default: one each",
		func(text string) (err error) {
			m.params.Sizes, err = generator.ParseMix(text)
			return err
		},
	)
	flags.Func(
		"types",
		"GPU `TYPES` that jobs require, by weight, such as A100:30,H100:20,:50",
		func(text string) (err error) {
			m.params.GPUTypes, err = generator.ParseChoice(text)
			return err
		},
	)
	flags.Func(
		"model-mix",
		"`MODELS` that jobs train, by weight, such as resnet50:60,bert:40",
		func(text string) (err error) {
			m.params.Models, err = generator.ParseChoice(text)
			return err
		},
	)
	flags.Func("tenants", "`USERS` of the generator tenants, by weight, such as a:50,b:30", func(text string) (err error) {
		m.params.Tenants, err = generator.ParseTenants(text)
		return err
	})
}

// generate generates the jobs for a load; 0 means that the rate is set.
func (m *generatorFlags) generate(seed uint64, gpus int, load float64) (workload.Trace, error) {
	p := m.params
	p.Seed, p.GPUs, p.Load = seed, gpus, load
	trace, err := generator.Make(m.kind, p)
	if err != nil {
		return trace, usage(err)
	}
	return trace, nil
}

// generateVerb is sim generate.
func generateVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	m, hardware := &generatorFlags{}, &machines{}
	flags.StringVar(&m.kind, "kind", "poisson", "`KIND` of arrivals: "+names(generator.Names()))
	m.flags(flags)
	seed := flags.Uint64("seed", 1, "`NUMBER` that determines all random choices")
	load := flags.Float64("load", 0, "`LOAD` of the cluster on average, 1 being all of it")
	flags.IntVar(&hardware.Nodes, "nodes", 0, "the load refers to `N` nodes")
	flags.IntVar(&hardware.GPUsPerNode, "gpus-per-node", 0, "with `N` GPUs each")
	flags.Float64Var(
		&m.params.EstimateError,
		"estimate-error",
		0,
		"estimates are wrong by a factor of up to 1+`ERROR`, in either direction",
	)
	out := flags.String("out", "", "write to `FILE` instead of standard output")
	return func(_ context.Context, to verb.Streams, _ []string) error {
		given := setFlags(flags)
		if given["load"] == given["jobs-per-hour"] {
			return &verb.UsageError{
				Text: "set the rate of arrivals: --load X with --nodes N --gpus-per-node G, or --jobs-per-hour N",
			}
		}
		rated := rule{
			"nodes gpus-per-node",
			given["jobs-per-hour"],
			"with --jobs-per-hour",
			"it describes the cluster that a load refers to; leave it out, or set --load",
		}
		if err := checkUnused(given, append(m.rules("kind"), rated)...); err != nil {
			return err
		}
		gpus := 0
		if *load > 0 {
			nodes, err := hardware.cluster()
			if err != nil {
				return err
			}
			for i := range nodes {
				gpus += nodes[i].GPUs
			}
			if gpus == 0 {
				return &verb.UsageError{
					Text: "--load needs the cluster that it refers to: --nodes N --gpus-per-node G",
				}
			}
		}
		trace, err := m.generate(*seed, gpus, *load)
		if err != nil {
			return err
		}
		if *out == "" {
			return workload.Write(to.Out, trace.Jobs)
		}
		if err := writeTrace(*out, trace); err != nil {
			return err
		}
		_, err = fmt.Fprintf(to.Err, "%s: %s\n", *out, humanize.Count(trace.Jobs.Len(), "job", "jobs"))
		return err
	}
}

// writeTrace writes a file atomically. If the path is not a regular file, as /dev/stdout or a named
// pipe, it is written to and not replaced.
func writeTrace(path string, trace workload.Trace) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		if err := writeFile(path, func(to io.Writer) error { return workload.Write(to, trace.Jobs) }); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		return nil
	}
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		path = followed
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".unfinished-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(file.Name()) // no effect after the rename
	defer file.Close()
	if err := workload.Write(file, trace.Jobs); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
