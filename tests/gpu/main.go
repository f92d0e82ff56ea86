package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// partLimit is how long a part may take: rows that do not fit are left for the next run.
const partLimit = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gpu:", err)
		os.Exit(1)
	}
}

// options are what the caller wants.
type options struct {
	root, library, results string
	list, again            bool
	limit                  time.Duration
	wanted                 []string
}

const help = `usage: ./build.sh gpu [FLAG...] [PART | PART/ROW ...]

Runs what only a machine with an NVIDIA GPU can show, and writes a table and JSON. Rows that were shown before, on the same
GPU by the same driver and build, are not run again. Without arguments every part runs.

`

func parse(arguments []string) (o options, err error) {
	flags := flag.NewFlagSet("gpu", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "the repository, or the bundle as it was unpacked")
	flags.StringVar(&o.library, "driver", "", "`library` to open as the driver instead of libcuda.so.1")
	flags.StringVar(&o.results, "results", "", "`directory` for table, JSON and what was shown so far (bench/results)")
	flags.BoolVar(&o.list, "list", false, "say which rows there are, and which are impossible here")
	flags.BoolVar(&o.again, "again", false, "run rows again that failed")
	flags.DurationVar(&o.limit, "limit", partLimit, "time for one part; rows that do not fit are left for the next run")
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
	o.wanted = flags.Args()
	return o, nil
}

func run(ctx context.Context, arguments []string) error {
	o, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	m := look(ctx, o.root, o.library)
	m.describe(os.Stdout)
	rows, err := choose(allRows(ctx, m), o.wanted)
	if err != nil {
		return err
	}
	if o.list {
		list(os.Stdout, m, rows)
		return nil
	}
	if why, lacks := m.lacks[hasGPU]; lacks {
		return fmt.Errorf("there is no GPU to show anything on: %s", why)
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	j, err := openJournal(filepath.Join(o.results, "gpu-rows.jsonl"), m.identity)
	if err != nil {
		return err
	}
	c := course{machine: m, journal: j, again: o.again, limit: o.limit}
	if err := c.run(ctx, rows); err != nil {
		return err
	}
	return c.report(o.results, rows)
}

// choose keeps the rows that are wanted, by part or by part and row.
func choose(rows []row, wanted []string) ([]row, error) {
	if len(wanted) == 0 {
		return rows, nil
	}
	var chosen []row
	for _, want := range wanted {
		part, name, one := strings.Cut(want, "/")
		before := len(chosen)
		for _, r := range rows {
			if r.part == part && (!one || r.name == name) {
				chosen = append(chosen, r)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no %s; parts are %s (--list shows the rows)", want, strings.Join(parts(rows), ", "))
		}
	}
	return chosen, nil
}

// parts are the names of the parts, in order.
func parts(rows []row) (names []string) {
	for _, r := range rows {
		if !slices.Contains(names, r.part) {
			names = append(names, r.part)
		}
	}
	return names
}
