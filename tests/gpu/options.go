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
	flags.StringVar(&o.root, "root", ".", "the repository, or the bundle as it was unpacked")
	flags.StringVar(&o.library, "driver", "", "`library` to open as the driver instead of libcuda.so.1")
	flags.StringVar(&o.results, "results", "", "`directory` for table, JSON and what was shown so far (bench/results)")
	flags.StringVar(&o.scratch, "dir", "/var/tmp", "`directory` for images: a disk with much room")
	flags.BoolVar(&o.list, "list", false, "say which rows there are, and which are impossible here")
	flags.BoolVar(&o.again, "again", false, "run rows again that failed")
	flags.DurationVar(
		&o.part,
		"limit",
		10*time.Minute,
		"time for one part; rows that do not fit are left for the next run",
	)
	flags.DurationVar(&o.whole, "total", 0, "time for all of it; 0 is as long as it takes")
	flags.StringVar(&o.python, "python", cmp.Or(os.Getenv("PHOS_GPU_PYTHON"), "python3"), "a `Python` that has PyTorch")
	flags.Float64Var(
		&o.scale,
		"scale",
		1,
		"of the models whose steps are measured: below 1 for what is slower than a GPU",
	)
	flags.IntVar(&o.steps, "steps", 50, "that are measured of each model")
	flags.Float64Var(&o.slowness, "slowness", 1, "rows may take so many times as long as on a GPU")
	sizes := flags.String("sizes", "1GiB,8GiB,32GiB,80GiB", "of device memory that is saved")
	host := flags.String("host-memory", "", "that the machine has, where it shows less than can be used")
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
