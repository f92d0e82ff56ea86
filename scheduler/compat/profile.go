package compat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// Options of the simulators.
type Options struct {
	Nodes []cluster.Node
	// Order is a policy's name, one of Orders.
	Order string
	// Admission is "all" or "load:X"; Tiresias's simulator supports only the first.
	Admission string
	// Round is Blox's round; 0 means 300 seconds.
	Round time.Duration
	// Limits are the attained service at which Tiresias's jobs move to the next queue: seconds for
	// dlas, GPU-seconds for dlas-gpu.
	Limits []time.Duration
	Track  sim.Track
	// Progress is called with the number of jobs that have ended.
	Progress func(ended, total int)
}

// Names returns the profiles.
func Names() []string { return []string{"blox", "tiresias"} }

// ErrUnknown is returned for an unknown name.
var ErrUnknown = errors.New("not known")

// ErrLimits is returned for missing or invalid queue limits.
var ErrLimits = errors.New("limits of queues")

// ErrStuck is returned for jobs that the original would wait for forever.
var ErrStuck = errors.New("no job can ever start")

// Run simulates with a profile. If the context ends, it returns the result so far, marked as
// partial.
func Run(ctx context.Context, profile string, jobs []cluster.Job, o Options) (*sim.Result, error) {
	switch profile {
	case "blox":
		return Blox(ctx, jobs, o)
	case "tiresias":
		return Tiresias(ctx, jobs, o)
	}
	return nil, fmt.Errorf("profile %q: %w; want one of %s", profile, ErrUnknown, strings.Join(Names(), " and "))
}

// Orders returns the policies of a profile.
func Orders(profile string) []string {
	switch profile {
	case "blox":
		return []string{"fifo", "las", "srtf", "tiresias"}
	case "tiresias":
		return []string{"fifo", "fjf", "sjf", "srtf", "srsf", "dlas", "dlas-gpu"}
	}
	return nil
}

func checkOrder(profile, order string) error {
	if slices.Contains(Orders(profile), order) {
		return nil
	}
	if profile == "blox" && order == "optimus" {
		return fmt.Errorf(
			"profile blox: order optimus ends with an error in Blox as it was released, so there is nothing to reproduce; " +
				"the native profile has an elastic one",
		)
	}
	return fmt.Errorf(
		"profile %s: order %q: %w; want one of %s",
		profile,
		order,
		ErrUnknown,
		strings.Join(Orders(profile), ", "),
	)
}

// ParseAdmission parses "all", which is 0, or "load:X".
func ParseAdmission(text string) (load float64, err error) {
	if text == "" || text == "all" {
		return 0, nil
	}
	value, found := strings.CutPrefix(text, "load:")
	if load, err = strconv.ParseFloat(value, 64); !found || err != nil || !(load > 0) || load > 1e6 {
		return 0, fmt.Errorf("admission %q: %w; want all or load:X, such as load:1.2", text, ErrUnknown)
	}
	return load, nil
}

// arrivals returns the indices of jobs by arrival, then by number.
func arrivals(jobs []cluster.Job) []int {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(jobs[a].Submit, jobs[b].Submit), cmp.Compare(jobs[a].ID, jobs[b].ID))
	})
	return order
}

// capacity returns the number of GPUs of all nodes.
func capacity(nodes []cluster.Node) (gpus int) {
	for i := range nodes {
		gpus += nodes[i].GPUs
	}
	return gpus
}

// checkSupported returns an error for jobs that the originals do not support.
func checkSupported(profile string, jobs []cluster.Job, gpus int) error {
	for i := range jobs {
		j := &jobs[i]
		switch {
		case j.Share != 0 && j.Share != cluster.WholeGPU:
			return fmt.Errorf("profile %s: job %d needs a share of a GPU, which the profile does not support", profile, j.ID)
		case j.GPUs > gpus:
			return fmt.Errorf("profile %s: job %d needs %d GPUs, and the cluster has %d", profile, j.ID, j.GPUs, gpus)
		}
		if err := sim.CheckTimes(j); err != nil {
			return fmt.Errorf("profile %s: %w", profile, err)
		}
	}
	return nil
}
