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

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/autoselect"
	"github.com/phos-gpu/phos/scheduler/costs"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/throughput"
	"github.com/phos-gpu/phos/scheduler/workload"
)

// tables are what was read from files for a simulation. Many simulations share them.
type tables struct {
	models  *throughput.Table // nil: nobody asked for speeds
	costs   *costs.Table      // nil: stopping and going on takes no time
	history []cluster.Job     // nil: nobody knows of any
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
	if s.Tier != "" && err == nil {
		if tiers := t.costs.Tiers(); !slices.Contains(tiers, s.Tier) {
			return t, usage(
				fmt.Errorf(
					"--tier takes one of %s: %s; and not %q",
					filepath.Base(s.Cost),
					cmp.Or(names(tiers), "there is none"),
					s.Tier,
				),
			)
		}
	}
	return t, err
}

// readTable opens a file of a table.
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

// synthesizer is the order that picks orders, with admissions.
const synthesizer = "synthesizer"

// synthesizerPolicies makes a scheduler that simulates ahead: of fifo, las and srtf with three admissions
// each, as Blox's, base being all the rest.
func (s *settings) synthesizerPolicies(base func() scheduler.Policies) (scheduler.Policies, error) {
	if s.Admission != "all" {
		return scheduler.Policies{}, usage(
			fmt.Errorf("order %s tries admissions of its own, and takes no --admission", synthesizer),
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

// elastic makes a policy that says how many GPUs each job has, and how fast jobs are on them.
func (s *settings) elastic(p *scheduler.Policies, t tables) (err error) {
	p.Allocate, p.Speeds, err = elastic.ByName(s.Order, elastic.Parameters{Table: t.models, Seed: s.Seed})
	return usage(err)
}

// lengths are how long past jobs ran, in GPU-time for orders in two dimensions.
func (t *tables) lengths(gpuTime bool) (lengths []time.Duration) {
	for i := range t.history {
		length := t.history[i].Length
		if gpuTime {
			length = length / cluster.WholeGPU * time.Duration(t.history[i].GPUs*t.history[i].Share)
		}
		if length > 0 {
			lengths = append(lengths, length)
		}
	}
	return lengths
}

// placement makes a policy that finds GPUs; jobs are those that it will be asked for.
func placement(name string, jobs []cluster.Job) (scheduler.Placer, error) {
	p := place.Parameters{}
	if name == "fgd" {
		p.Mix = place.Mix(jobs)
	}
	return place.ByName(name, p)
}
