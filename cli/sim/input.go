package sim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cli/memlimit"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/eventlog"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/workload"
)

func formats() []string { return workload.Formats() }

// input is what is simulated.
type input struct {
	jobs   *packed.Jobs
	nodes  []cluster.Node
	events []sim.NodeEvent
	tables tables
	log    *eventlog.Writer // nil: none

	omitRuns bool // no chart will show them
}

// load reads all that the settings name and validates the combination.
func (s *settings) load() (in input, err error) {
	if s.Jobs == "" {
		return in, &verb.UsageError{Text: "name the jobs with --jobs FILE; pos_cli sim generate generates some"}
	}
	if in.nodes, err = s.cluster(); err != nil {
		return in, err
	}
	memlimit.Fit()
	trace, err := workload.Read(s.Jobs, workload.Options{
		Format: s.Format, Beside: s.Beside, ProcessorsPerGPU: s.ProcessorsPerGPU, Fits: s.fits(in.nodes),
	})
	if err != nil {
		return in, err
	}
	s.trace = factsOf(trace)
	in.jobs = trace.Jobs
	if in.nodes == nil {
		in.nodes = trace.Nodes
		s.assumeSpeeds(trace)
	}
	if len(in.nodes) == 0 {
		return in, &verb.UsageError{
			Text: "describe the cluster: --nodes N --gpus-per-node G, or --gpu-types LIST, or --nodes-file FILE",
		}
	}
	return in, s.complete(&in)
}

// complete checks jobs against the cluster and reads the other files.
func (s *settings) complete(in *input) (err error) {
	fit := s.fits(in.nodes)
	counted := false
	for _, j := range in.jobs.All() {
		if column, want := fit(&j); want != "" {
			return fmt.Errorf(
				"%s: job %d: %s: got %q, want %s",
				filepath.Base(s.Jobs),
				j.ID,
				column,
				valueOf(&j, column),
				want,
			)
		}
		counted = counted || s.track.Counts(j.ID)
	}
	if !counted {
		return fmt.Errorf(
			"--track %s selects no job: those of %s have other numbers",
			s.track,
			filepath.Base(s.Jobs),
		)
	}
	if s.EstimateError > 0 {
		in.jobs = sim.PerturbEstimates(in.jobs, s.EstimateError, s.Seed)
	}
	if s.NodeEvents != "" {
		if in.events, err = readNodeEvents(s.NodeEvents, in.nodes); err != nil {
			return err
		}
	}
	in.tables, err = s.read()
	if s.Profile != native {
		s.Model = ""
		return err
	}
	if err == nil {
		err = s.checkTypeSpeeds(in.nodes)
	}
	if err == nil {
		in.tables.speeds = s.newSpeedModel(in.jobs, in.nodes, in.tables.models)
	}
	return err
}

// fits returns a function that returns the column of a job that is too large for the cluster, for
// its user's cap, or for virtual time, and what is expected there.
func (s *settings) fits(nodes []cluster.Node) func(*cluster.Job) (column, want string) {
	fit, caps := fits(nodes), s.Caps.whole()
	return func(j *cluster.Job) (column, want string) {
		if sim.CheckTimes(j) != nil {
			return beyondHorizon(j)
		}
		least := j.GPUs
		if j.MinGPUs > 0 {
			least = j.MinGPUs
		}
		for user := j.User; user != ""; user = parentOf(user) {
			if most, capped := caps[user]; capped && least > most {
				return "num_gpus", fmt.Sprintf("at most %d, the cap of %s by --caps", most, user)
			}
		}
		if fit == nil {
			return "", ""
		}
		return "num_gpus", fit(j)
	}
}

// beyondHorizon returns which time of a job is too late.
func beyondHorizon(j *cluster.Job) (column, want string) {
	column, most := "estimate_s", sim.Horizon
	switch {
	case j.Submit > sim.Horizon:
		column = "submit_s"
	case j.Length > sim.Horizon-j.Submit:
		column, most = "duration_s", sim.Horizon-j.Submit
	}
	return column, fmt.Sprintf("at most %s: %v", sim.Seconds(most), sim.ErrHorizon)
}

// valueOf returns a job's value of a column.
func valueOf(j *cluster.Job, column string) string {
	switch column {
	case "submit_s":
		return sim.Seconds(j.Submit)
	case "duration_s":
		return sim.Seconds(j.Length)
	case "estimate_s":
		return sim.Seconds(j.Estimate)
	}
	return strconv.Itoa(j.GPUs)
}

// parentOf returns the organisation of a user, as a for a/b; "" if there is none.
func parentOf(user string) string { return user[:max(0, strings.LastIndexByte(user, '/'))] }

// fits returns a function that returns what is expected of a job that is too large for a cluster;
// nil if there is no cluster.
func fits(nodes []cluster.Node) func(*cluster.Job) string {
	if len(nodes) == 0 {
		return nil
	}
	type kind struct {
		gpuType string
		bytes   int64
	}
	kinds, typed := map[kind]int{}, false
	for i := range nodes {
		typed = typed || nodes[i].GPUType != ""
		kinds[kind{nodes[i].GPUType, nodes[i].GPUMemoryBytes}] += nodes[i].GPUs
	}
	return func(j *cluster.Job) string {
		gpus := 0
		for k, n := range kinds {
			if (j.GPUType == "" || j.GPUType == k.gpuType) && (k.bytes == 0 || j.GPUMemoryBytes <= k.bytes) {
				gpus += n
			}
		}
		switch {
		case j.GPUs <= gpus:
			return ""
		case gpus == 0 && j.GPUType != "" && !typed:
			return fmt.Sprintf(
				"none: it needs GPUs of type %s, and the nodes have no type; use --gpu-types or --nodes-file",
				j.GPUType,
			)
		case j.GPUType == "" && j.GPUMemoryBytes == 0:
			return fmt.Sprintf("at most %d, the size of the cluster", gpus)
		}
		return fmt.Sprintf("at most %d, the size of the cluster in GPUs of that type and memory", gpus)
	}
}

// readNodeEvents reads events of nodes.
func readNodeEvents(path string, nodes []cluster.Node) (events []sim.NodeEvent, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open events of nodes: %w", err)
	}
	defer file.Close()
	s, err := openCSV(path, file, []string{"time_s", "node", "event"}, nil)
	if err != nil {
		return nil, err
	}
	names := map[string]cluster.NodeID{}
	for i := range nodes {
		names[strconv.Itoa(i)] = nodes[i].ID
	}
	for i := range nodes {
		names[nodes[i].Name] = nodes[i].ID
	}
	kinds := map[string]scheduler.Kind{"down": scheduler.NodeDown, "up": scheduler.NodeUp, "drain": scheduler.Drained}
	for {
		if err := s.read(); errors.Is(err, io.EOF) {
			return events, nil
		} else if err != nil {
			return nil, err
		}
		at, err := parseSeconds(s.value("time_s"))
		if err != nil {
			return nil, s.wrong("time_s", "seconds from 0")
		}
		node, ok := names[s.value("node")]
		if !ok {
			return nil, s.wrong("node", fmt.Sprintf("a node's number, 0 to %d, or its name", len(nodes)-1))
		}
		kind, ok := kinds[s.value("event")]
		if !ok {
			return nil, s.wrong("event", "down, up or drain")
		}
		events = append(events, sim.NodeEvent{At: at, Node: node, Kind: kind})
	}
}
