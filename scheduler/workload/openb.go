package workload

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/cluster"
)

// guessOpenB reports whether the header is that of a list of pods.
func guessOpenB(h head) bool { return h.has("num_gpu", "gpu_milli", "creation_time") }

// readOpenB reads openb_pod_list_*.csv: a pod is a job from its creation, as long as the time
// between its scheduling and its deletion.
func readOpenB(s *source) (Trace, error) {
	t, err := newTable(s.lines, nil)
	if err != nil {
		return Trace{}, err
	}
	if err := t.require("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time"); err != nil {
		return Trace{}, err
	}
	var trace Trace
	seen := map[string]int{}
	err = t.each(func() error {
		job, why, err := openBJob(t)
		if err != nil {
			return err
		}
		if first, twice := seen[job.Name]; twice {
			return t.badValue("name", job.Name, fmt.Sprintf("a name of its own; line %d has the same", first))
		}
		seen[job.Name] = t.line
		if why != "" {
			s.left[why]++
			return nil
		}
		if strings.Contains(job.GPUType, "|") {
			job.GPUType = ""
			s.left["jobs name several GPU models; here they run on any"]++
		}
		trace.Jobs = append(trace.Jobs, job)
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	in, done, err := s.openSecond("openb_node_list_gpu_node.csv*", "openb_node_list_*.csv*")
	if err != nil || in == nil {
		return trace, err
	}
	defer done()
	trace.Nodes, err = machines(*in, nil, machineColumns{name: "sn", gpus: "gpu", model: "model"})
	return trace, err
}

// openBJob returns a pod as a job, or why it is left out.
func openBJob(t *table) (j cluster.Job, why string, err error) {
	j = cluster.Job{Name: string(t.raw("name")), Share: cluster.WholeGPU}
	gpus, err := t.number("num_gpu", 0, maxGPUs, "a whole number from 0 to 1000000")
	if err != nil {
		return j, "", err
	}
	milli, err := t.number("gpu_milli", 0, cluster.WholeGPU, "thousandths of a GPU, from 0 to 1000")
	switch {
	case err != nil:
		return j, "", err
	case gpus == 0:
		return j, "jobs left out: they need no GPU", nil
	case t.absent("scheduled_time") || t.absent("deletion_time"):
		return j, "jobs left out: they never ran", nil
	case gpus == 1 && milli > 0:
		j.Share = int(milli)
	}
	j.GPUs = int(gpus)
	if !t.absent("gpu_spec") {
		j.GPUType = t.word("gpu_spec")
	}
	if j.Submit, err = t.seconds("creation_time"); err != nil {
		return j, "", err
	}
	from, err := t.seconds("scheduled_time")
	if err != nil {
		return j, "", err
	}
	to, err := t.seconds("deletion_time")
	if err == nil && to < from {
		err = t.badValue("deletion_time", string(t.raw("deletion_time")), "a time after scheduled_time")
	}
	j.Length, j.Estimate = to-from, to-from
	return j, "", err
}

// machineColumns are the column names of a table of machines.
type machineColumns struct{ name, gpus, model string }

// maxGPUsPerNode bounds the GPUs of a machine.
const maxGPUsPerNode = 64

// machines reads a table of machines; those without GPUs are skipped.
func machines(in lines, names []string, c machineColumns) (nodes []cluster.Node, err error) {
	t, err := newTable(in, names)
	if err != nil {
		return nil, err
	}
	if err := t.require(c.name, c.gpus, c.model); err != nil {
		return nil, err
	}
	err = t.each(func() error {
		gpus, err := t.number(c.gpus, 0, maxGPUsPerNode, "a whole number from 0 to 64")
		if err != nil || gpus == 0 {
			return err
		}
		node := cluster.Node{ID: cluster.NodeID(len(nodes)), Name: string(t.raw(c.name)), GPUs: int(gpus)}
		if !t.absent(c.model) {
			node.GPUType = t.word(c.model)
		}
		nodes = append(nodes, node)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}
