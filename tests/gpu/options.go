package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/phos-gpu/phos/daemon/config"
)

// options are the settings of the caller.
type options struct {
	root    string // of the repository, or of the bundle
	library string // opened as the driver; empty for the system's
	python  string // with PyTorch
	results string // directory of the table
	scratch string // directory of images
	wanted  []string

	list, again bool
	part, whole time.Duration

	sizes     []uint64 // bytes of device memory to save
	hostBytes uint64
	scale     float64 // of PyTorch's models
	steps     int
	slowness  float64 // of the GPU: multiplies the time limits of rows
}

const help = `usage: ./build.sh gpu [FLAG...] [PART | PART/ROW ...]

Runs what only a machine with an NVIDIA GPU can show, and writes a table and JSON. Rows that have passed before, on the same
GPU by the same driver and build, are not run again. Without arguments every part runs.

`

func parse(arguments []string) (o options, err error) {
	flags := flag.NewFlagSet("gpu", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "the repository, or the unpacked bundle")
	flags.StringVar(&o.library, "driver", "", "`library` to open as the driver instead of libcuda.so.1")
	flags.StringVar(&o.results, "results", "", "`directory` for table, JSON and journal (bench/results)")
	flags.StringVar(&o.scratch, "dir", "/var/tmp", "`directory` for images: a disk with much free space")
	flags.BoolVar(&o.list, "list", false, "list the rows, and those that are impossible here")
	flags.BoolVar(&o.again, "again", false, "repeat rows that failed")
	flags.DurationVar(
		&o.part,
		"limit",
		10*time.Minute,
		"time for one part; remaining rows are left for the next run",
	)
	flags.DurationVar(&o.whole, "total", 0, "time for all parts; 0 means no limit")
	flags.StringVar(&o.python, "python", cmp.Or(os.Getenv("PHOS_GPU_PYTHON"), "python3"), "a `Python` that has PyTorch")
	flags.Float64Var(
		&o.scale,
		"scale",
		1,
		"scale of the models of the step benchmark: below 1 for slow GPUs",
	)
	flags.IntVar(&o.steps, "steps", 50, "number of steps to measure of each model")
	flags.Float64Var(&o.slowness, "slowness", 1, "factor for the time limits of rows, for GPUs slower than a real one")
	sizes := flags.String("sizes", "1GiB,8GiB,32GiB,80GiB", "sizes of device memory to save")
	host := flags.String("host-memory", "", "memory of the machine, if it reports less than can be used")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), help)
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return o, err
	}
	if o.results == "" {
		o.results = filepath.Join(o.root, "bench/results")
	}
	for each := range strings.SplitSeq(*sizes, ",") {
		bytes, err := size(each)
		if err != nil {
			return o, fmt.Errorf("--sizes: %w", err)
		}
		o.sizes = append(o.sizes, bytes)
	}
	if *host != "" {
		if o.hostBytes, err = size(*host); err != nil {
			return o, fmt.Errorf("--host-memory: %w", err)
		}
	}
	o.wanted = flags.Args()
	return o, nil
}

// size parses a number of bytes with a unit.
func size(text string) (uint64, error) {
	var bytes config.Size
	err := bytes.UnmarshalText([]byte(text))
	return uint64(bytes), err
}
