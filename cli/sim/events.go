package sim

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/eventlog"
	"github.com/phos-gpu/phos/scheduler/workload"
)

// eventFile is where a log of events goes.
type eventFile struct {
	path     string    // "" if it is not a regular file, and written in place
	file     *os.File  // nil if it is standard output
	packed   io.Closer // nil if the log is not compressed
	unpacked *eventlog.Writer
}

// createEvents begins a log of events; nil if path is empty. "-" is standard output. A name that
// ends in .gz is compressed. The file appears at its path when close is called.
func createEvents(path string, stdout io.Writer, nodes []cluster.Node, s *settings) (f *eventFile, err error) {
	if path == "" {
		return nil, nil
	}
	f = &eventFile{}
	to := stdout
	if path != "-" {
		if err := f.create(path); err != nil {
			return nil, fmt.Errorf("write log of events: %w", err)
		}
		to = f.file
	}
	if strings.HasSuffix(path, ".gz") {
		packed := gzip.NewWriter(to)
		f.packed, to = packed, packed
	}
	s.defaults()
	f.unpacked, err = eventlog.NewWriter(to, eventlog.Header{
		Source: "simulation", Nodes: nodes, Scheduler: s.configuration(),
	})
	if err != nil {
		f.discard()
		return nil, err
	}
	return f, nil
}

// create opens a file: a temporary one beside path, or path itself if it is not a regular file, as
// a named pipe.
func (f *eventFile) create(path string) (err error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		f.file, err = os.Create(path)
		return err
	}
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		path = followed
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", path)
	}
	f.path = path
	f.file, err = os.CreateTemp(filepath.Dir(path), ".unfinished-")
	return err
}

// writer returns the log's writer; nil if there is no log.
func (f *eventFile) writer() *eventlog.Writer {
	if f == nil {
		return nil
	}
	return f.unpacked
}

// close completes the file.
func (f *eventFile) close() error {
	if f == nil {
		return nil
	}
	err := f.unpacked.Flush()
	if f.packed != nil {
		err = errors.Join(err, f.packed.Close())
	}
	if f.path != "" {
		err = errors.Join(err, f.file.Chmod(0o644))
	}
	if f.file != nil {
		err = errors.Join(err, f.file.Close())
	}
	if err == nil && f.path != "" {
		err = os.Rename(f.file.Name(), f.path)
	}
	if err != nil {
		f.discard()
		return fmt.Errorf("write log of events: %w", err)
	}
	return nil
}

// discard removes what was written, unless it was closed.
func (f *eventFile) discard() {
	if f == nil || f.file == nil {
		return
	}
	f.file.Close()
	if f.path != "" {
		os.Remove(f.file.Name())
	}
}

// checkVerb is sim check.
func checkVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	path := flags.String("events", "", "`FILE` that sim run --events wrote; - is standard input")
	asJSON := flags.Bool("json", false, "print JSON")
	return func(_ context.Context, to verb.Streams, _ []string) error {
		reader, done, err := openEvents(*path)
		if err != nil {
			return err
		}
		defer done()
		report, err := eventlog.Check(reader)
		if err != nil {
			return err
		}
		if !report.Complete && reader.Header.Source == "simulation" {
			return fmt.Errorf("%s ends behind line %d without its last line: it was cut off", filepath.Base(*path),
				reader.Line())
		}
		if *asJSON {
			return printJSON(to.Out, reportJSON(&reader.Header, &report))
		}
		return printReport(to.Out, reader, &report)
	}
}

// openEvents opens a log of events; - is standard input. The caller calls done behind the last use.
func openEvents(path string) (reader *eventlog.Reader, done func(), err error) {
	if path == "" {
		return nil, nil, &verb.UsageError{Text: "name the log with --events FILE"}
	}
	in, done := os.Stdin, func() {}
	if path != "-" {
		if in, err = os.Open(path); err != nil {
			return nil, nil, fmt.Errorf("open log of events: %w", err)
		}
		done = func() { in.Close() }
	}
	if reader, err = eventlog.NewReader(in, filepath.Base(path)); err != nil {
		done()
	}
	return reader, done, err
}

// traceVerb is sim trace.
func traceVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	path := flags.String("events", "", "`FILE` with a log of events; - is standard input")
	out := flags.String("out", "", "write to `FILE` instead of standard output")
	return func(_ context.Context, to verb.Streams, _ []string) error {
		reader, done, err := openEvents(*path)
		if err != nil {
			return err
		}
		defer done()
		trace, err := eventlog.Trace(reader)
		if err != nil {
			return err
		}
		notes := &lines{to: to.Err}
		for _, note := range trace.Notes {
			notes.line("%s", note)
		}
		if *out == "" {
			return errors.Join(notes.err, workload.Write(to.Out, trace.Jobs))
		}
		if err := writeTrace(*out, trace); err != nil {
			return err
		}
		notes.line("%s: %s", *out, humanize.Count(trace.Jobs.Len(), "job", "jobs"))
		return notes.err
	}
}

const aboutTrace = `Writes the jobs of a log of events as a trace, which sim run and sim compare play under other
policies: what would have become of the same jobs. The log is one that sim run --events or a cluster
has written.

    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order las --events events.jsonl.gz
    pos_cli sim trace --events events.jsonl.gz --out measured.csv
    pos_cli sim run --jobs measured.csv --nodes 32 --gpus-per-node 4 --order srtf

Submissions, users, priorities, GPUs with their types, and estimates are those of the log. A job is as
long as it has worked by the log: the time on the GPUs that it asks for, without waiting, loading and
lost work. A job that was withdrawn or given up is as long as it had worked by then. Jobs that never
worked, and those that had not ended, are left out. How many is said on standard error.`

// reportJSON returns a report with the names of JSON.
func reportJSON(h *eventlog.Header, r *eventlog.Report) any {
	return struct {
		Version     string  `json:"version"`
		Source      string  `json:"source"`
		Events      int64   `json:"events"`
		Jobs        int     `json:"jobs"`
		Done        int     `json:"done"`
		GivenUp     int     `json:"given_up"`
		Withdrawn   int     `json:"withdrawn"`
		Running     int     `json:"running"`
		Waiting     int     `json:"waiting"`
		Preemptions int     `json:"preemptions"`
		Failures    int     `json:"failures"`
		Adopted     int     `json:"adopted"`
		Refused     int     `json:"refused"`
		Kept        int     `json:"kept"`
		Until       float64 `json:"until_s"`
		Complete    bool    `json:"complete"`
		Partial     bool    `json:"partial"`
	}{
		fmt.Sprintf("%d.%d", h.Major, h.Minor), h.Source, r.Events, r.Jobs, r.Done, r.GivenUp, r.Withdrawn, r.Running,
		r.Waiting, r.Preemptions, r.Failures, r.Adopted, r.Refused, r.Kept, r.Until.Seconds(), r.Complete, r.Partial,
	}
}

// printReport prints what a consistent log has.
func printReport(to io.Writer, reader *eventlog.Reader, r *eventlog.Report) error {
	out := &lines{to: to}
	out.line("consistent        version %d.%d, of a %s", reader.Header.Major, reader.Header.Minor,
		humanize.Shorten(reader.Header.Source, 40))
	out.line("events            %d until %s", r.Events, span(r.Until.Seconds()))
	out.line("jobs              %d: %d done, %d gave up, %d withdrawn, %d on GPUs, %d waiting", r.Jobs, r.Done, r.GivenUp,
		r.Withdrawn, r.Running, r.Waiting)
	out.line("preemptions       %d", r.Preemptions)
	out.line("failures          %d", r.Failures)
	if r.Adopted+r.Refused+r.Kept > 0 {
		out.line("reports           %d jobs adopted, %d runs refused, %d kept", r.Adopted, r.Refused, r.Kept)
	}
	if r.Partial {
		out.line("PARTIAL           the simulation was cut off")
	}
	return out.err
}

const aboutCheck = `Reads a log of events to its end and checks it against itself: no GPU has two jobs, jobs get the
number and type of GPUs that they ask for, nothing runs on a node that is down, each run that ends has
begun, and those for which others were preempted start.

    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order las --events events.jsonl.gz
    pos_cli sim check --events events.jsonl.gz

docs/events.md has the format. Logs of other programs that keep to it can be checked, too. Exit
status: 0 consistent, 1 not, with the line, 2 wrong command line.`
