package sim

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/autoselect"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/costs"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/throughput"
	"github.com/phos-gpu/phos/scheduler/workload"
)

// tables is what was read from files for a simulation. Simulations share it.
type tables struct {
	models  *throughput.Table // nil: no --models
	speeds  *speedModel
	costs   *costs.Table // nil: stopping and resuming takes no time
	history *packed.Jobs // nil: no --history
}

// read reads the files of tables.
func (s *settings) read() (t tables, err error) {
	if s.History != "" {
		past, err := workload.Read(s.History, workload.Options{})
		if err != nil {
			return t, err
		}
		t.history = past.Jobs
	}
	if s.Models != "" {
		err = readTable(s.Models, func(in io.Reader, _ string) error {
			models, err := throughput.Read(in)
			t.models = throughput.NewTable(models...)
			return err
		})
	}
	if s.Cost != "" && err == nil {
		err = readTable(s.Cost, func(in io.Reader, name string) (err error) {
			t.costs, err = costs.Read(in, name)
			return err
		})
	}
	if s.restartCost > 0 {
		t.costs = s.restartTable()
	}
	if s.Tier != "" && err == nil {
		if tiers := t.costs.Tiers(); !slices.Contains(tiers, s.Tier) {
			return t, usage(
				fmt.Errorf(
					"--tier takes one of %s: %s; not %q",
					filepath.Base(s.Cost),
					cmp.Or(names(tiers), "it has none"),
					s.Tier,
				),
			)
		}
	}
	return t, err
}

// readTable opens a file and reads it.
func readTable(path string, read func(in io.Reader, name string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open table: %w", err)
	}
	defer file.Close()
	name := filepath.Base(path)
	if err := read(file, name); err != nil && !strings.HasPrefix(err.Error(), name) {
		return fmt.Errorf("%s: %w", name, err)
	} else if err != nil {
		return err
	}
	return nil
}

// synthesizer is the order that chooses among orders and admission policies.
const synthesizer = "synthesizer"

// synthesizerPolicies returns a scheduler that simulates ahead: fifo, las and srtf, with three
// admission policies each, as in Blox. base returns the other policies.
func (s *settings) synthesizerPolicies(base func() scheduler.Policies) (scheduler.Policies, error) {
	if s.Admission != "all" {
		return scheduler.Policies{}, usage(
			fmt.Errorf("order %s chooses admissions itself, and takes no --admission", synthesizer),
		)
	}
	var candidates []autoselect.Candidate
	for _, each := range []string{"fifo", "las", "srtf"} {
		for _, admission := range []string{"all", "load:1.2", "load:1.4"} {
			ranked, err := order.ByName(each, order.Parameters{Aging: s.age})
			if err != nil {
				return scheduler.Policies{}, usage(err)
			}
			admitter, err := admit.ByName(admission)
			if err != nil {
				return scheduler.Policies{}, usage(err)
			}
			candidates = append(
				candidates,
				autoselect.Candidate{Name: each + " " + admission, Order: ranked, Admit: admitter},
			)
		}
	}
	chooser, err := autoselect.New(
		base,
		candidates,
		autoselect.Options{Every: s.chooseEvery, Margin: autoselect.DefaultMargin},
	)
	if err != nil {
		return scheduler.Policies{}, usage(err)
	}
	return chooser.Policies(), nil
}

// elastic sets an elastic policy and the speeds of jobs under it.
func (s *settings) elastic(p *scheduler.Policies, t tables) (err error) {
	p.Allocate, p.Speeds, err = elastic.ByName(s.Order, s.elasticParameters(p, t))
	p.PromptStarts = s.promptStarts
	return usage(err)
}

// lengths returns how long past jobs ran, in GPU-time if requested.
func (t *tables) lengths(gpuTime bool) (lengths []time.Duration) {
	for _, j := range t.history.All() {
		length := j.Length
		if gpuTime {
			length = length / cluster.WholeGPU * time.Duration(j.GPUs*j.Share)
		}
		if length > 0 {
			lengths = append(lengths, length)
		}
	}
	return lengths
}

// placement returns what a placement must know of the jobs that it will place.
func placement(name string, jobs *packed.Jobs) (p place.Parameters) {
	if name == "fgd" {
		p.Mix = place.Mix(jobs)
	}
	return p
}
