package sim

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// tables are what was read from files for a simulation. Many simulations share them.
type tables struct {
	models *throughput.Table // nil: nobody asked for speeds
}

// read reads the files of tables.
func (s *settings) read() (t tables, err error) {
	if s.Models == "" {
		return t, nil
	}
	file, err := os.Open(s.Models)
	if err != nil {
		return t, fmt.Errorf("open models: %w", err)
	}
	defer file.Close()
	models, err := throughput.Read(file)
	if err != nil {
		return t, fmt.Errorf("%s: %w", filepath.Base(s.Models), err)
	}
	t.models = throughput.NewTable(models...)
	return t, nil
}

// elastic makes a policy that says how many GPUs each job has, and how fast jobs are on them.
func (s *settings) elastic(p *scheduler.Policies, t tables) (err error) {
	p.Allocate, p.Speeds, err = elastic.ByName(s.Order, elastic.Parameters{Table: t.models, Seed: s.Seed})
	return usage(err)
}

// placement makes a policy that finds GPUs; jobs are those that it will be asked for.
func placement(name string, jobs []cluster.Job) (scheduler.Placer, error) {
	p := place.Parameters{}
	if name == "fgd" {
		p.Mix = place.Mix(jobs)
	}
	return place.ByName(name, p)
}
