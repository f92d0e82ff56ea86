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

func main() {
	if len(os.Args) > 5 && os.Args[1] == attendant {
		status, err := attend(os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "gpu:", err)
		}
		os.Exit(status)
	}
	if len(os.Args) == 2 && os.Args[1] == "unpack" {
		if err := unpack(os.Stdout, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "gpu:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gpu:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	began := time.Now()
	o, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	m := look(ctx, o)
	m.describe(os.Stdout)
	rows, err := choose(allRows(ctx, m), o.wanted)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	if o.list {
		list(os.Stdout, m, rows)
		return nil
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	j, err := openJournal(filepath.Join(o.results, "gpu-rows.jsonl"), m.identity)
	if err != nil {
		return err
	}
	if m.places, err = newPlaces(o.scratch); err != nil {
		return err
	}
	defer m.places.remove()
	if err := m.record(ctx); err != nil {
		return err
	}
	c := course{
		machine: m,
		journal: j,
		report:  newReport(m, o.results),
		again:   o.again,
		part:    o.part,
		whole:   o.whole,
		began:   began,
	}
	c.plan(os.Stdout, rows)
	if err := c.run(ctx, rows); err != nil {
		return err
	}
	if err := c.report.write(j.of(rows)); err != nil {
		return err
	}
	if why, lacks := m.lacks[hasGPU]; lacks {
		return fmt.Errorf("found no usable GPU: %s", why)
	}
	return c.conclude(j.of(rows))
}

// choose returns the wanted rows, given by part or by part and row.
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
			return nil, fmt.Errorf(
				"unknown row or part %s; parts are %s (--list shows the rows)",
				want,
				strings.Join(parts(rows), ", "),
			)
		}
	}
	return chosen, nil
}

// parts returns the names of the parts, in order.
func parts(rows []row) (names []string) {
	for _, r := range rows {
		if !slices.Contains(names, r.part) {
			names = append(names, r.part)
		}
	}
	return names
}
