package plan

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// settings are the flags that describe what to plan for.
type settings struct {
	profile string
	spec    pipeline.Spec
	memory  bytesValue
	// machines are those that nodes share, for the verbs that place pipelines.
	machines machinesValue
}

// flags defines the flags for the model's profile, the nodes and their GPUs.
func (s *settings) flags(flags *flag.FlagSet) {
	flags.StringVar(&s.profile, "profile", "", "`FILE` with the costs of the model's layers, JSON or CSV")
	flags.IntVar(&s.spec.Nodes, "nodes", 0, "`N` nodes")
	flags.IntVar(&s.spec.GPUsPerNode, "gpus-per-node", 1, "`M` GPUs on each node")
	flags.Var(&s.memory, "gpu-memory", "`BYTES` of one GPU, such as 80GiB; default: ignore memory")
	flags.IntVar(&s.spec.Faults, "faults", 0, "`F` simultaneous node failures to survive with a copy of every layer")
}

// placeFlags defines the flags of verbs that place pipelines on nodes: the batch, and machines.
func (s *settings) placeFlags(flags *flag.FlagSet) {
	flags.IntVar(&s.spec.Microbatches, "microbatches", 0, "`NB` microbatches per iteration, over all pipelines")
	machinesFlag(flags, &s.machines, "; --faults then counts machines")
}

// machinesFlag defines the flag for the machines that nodes share.
func machinesFlag(flags *flag.FlagSet, machines *machinesValue, more string) {
	flags.Var(machines, "machines", "`NODES` that share a machine and are lost together, such as 0-3/4-7"+more)
}

// load reads the profile and completes the spec.
func (s *settings) load() (*pipeline.Profile, pipeline.Spec, error) {
	s.spec.GPUMemoryBytes = int64(s.memory)
	if s.profile == "" {
		return nil, s.spec, &verb.UsageError{Text: "--profile is missing; see: pos_cli help plan"}
	}
	if s.spec.Nodes == 0 {
		return nil, s.spec, &verb.UsageError{Text: "--nodes is missing"}
	}
	p, err := readProfile(s.profile)
	return p, s.spec, err
}

func readProfile(path string) (*pipeline.Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := pipeline.ReadProfile(f)
	if err != nil {
		return nil, pipeline.InFile(path, err)
	}
	return p, nil
}

// bytesValue is a number of bytes with an optional unit.
type bytesValue int64

var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
}

// Set parses a number with an optional unit: 80GiB, 25GB, 1000.
func (b *bytesValue) Set(text string) error {
	number, scale := text, int64(1)
	for _, unit := range units {
		if rest, found := strings.CutSuffix(text, unit.name); found {
			number, scale = rest, unit.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0 && n*float64(scale) <= 1<<60) {
		return fmt.Errorf("not a number of bytes")
	}
	*b = bytesValue(n * float64(scale))
	return nil
}

func (b *bytesValue) String() string { return strconv.FormatInt(int64(*b), 10) }

// nodesValue is a list of nodes: 2,6 or 0-3,9.
type nodesValue []cluster.NodeID

// maxNodes bounds the numbers in a range.
const maxNodes = 1 << 20

func (v *nodesValue) Set(text string) error {
	*v = nil
	for _, each := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(each), "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || to < from || to >= maxNodes {
			return fmt.Errorf("%q is not a node or a range of nodes", each)
		}
		for node := from; node <= to; node++ {
			*v = append(*v, cluster.NodeID(node))
		}
	}
	return nil
}

func (v *nodesValue) String() string { return nodeList(*v) }

// machinesValue is a list of machines, each with its nodes: 0-3/4-7.
type machinesValue pipeline.Machines

// Set parses machines. None of them has a node of another one.
func (v *machinesValue) Set(text string) error {
	*v = machinesValue{} // not nil, if no node shares its machine
	for _, each := range strings.Split(text, "/") {
		var nodes nodesValue
		if err := nodes.Set(each); err != nil {
			return err
		}
		*v = append(*v, nodes)
	}
	return pipeline.Machines(*v).Check()
}

func (v *machinesValue) String() string {
	var words []string
	for _, each := range *v {
		words = append(words, nodeList(each))
	}
	return strings.Join(words, "/")
}

// nodeList returns the numbers of nodes, separated by commas.
func nodeList(nodes []cluster.NodeID) string {
	var words []string
	for _, node := range nodes {
		words = append(words, strconv.Itoa(int(node)))
	}
	return strings.Join(words, ",")
}
