package decisions

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/eventlog"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
)

// leadership is a scheduler with the log of its decisions.
type leadership struct {
	*testing.T
	engine *scheduler.Engine
	log    *Log
	said   bytes.Buffer // what was logged
	now    time.Duration
}

// begin begins a leadership that logs its decisions in a directory.
func begin(t *testing.T, dir string, epoch store.Epoch) *leadership {
	t.Helper()
	l := &leadership{T: t}
	var err error
	if l.engine, err = scheduler.New(nil, scheduler.Policies{Order: order.FIFO{}, Place: place.BestFit{}}); err != nil {
		t.Fatal(err)
	}
	of := Leadership{Epoch: epoch, Began: time.Unix(1e9, 0), Policies: fmt.Sprint("policies of ", epoch)}
	if l.log, err = Begin(dir, of, l.engine, slog.New(slog.NewTextHandler(&l.said, nil))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.log.Close)
	return l
}

// step makes a step of the scheduler, a second after the last one.
func (l *leadership) step(events ...scheduler.Event) {
	l.Helper()
	l.now += time.Second
	plan, stepErr := l.engine.Step(l.now, events)
	if err := l.log.Step(l.now, events, plan, stepErr); err != nil {
		l.Errorf("the log's error is the scheduler's: %v", err)
	}
}

// run runs a job to its end on a node that comes first.
func (l *leadership) run(job cluster.JobID) {
	l.Helper()
	if job == 1 {
		l.step(scheduler.Event{Kind: scheduler.NodeUp, Machine: &cluster.Node{GPUs: 2}})
	}
	facts := &cluster.Job{ID: job, GPUs: 2, Share: cluster.WholeGPU, Submit: l.now}
	l.step(scheduler.Event{Kind: scheduler.Submitted, Job: job, Facts: facts})
	l.step(scheduler.Event{Kind: scheduler.Finished, Job: job, Run: 1})
}

// lines returns what the newest log of a directory has.
func lines(t *testing.T, dir string) (all []string) {
	t.Helper()
	if err := Read(dir, func(line string) error { all = append(all, line); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLog: what the scheduler has done is what the reader of the format finds, after each step.
func TestLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "decisions")
	l := begin(t, dir, 7)
	for job := cluster.JobID(1); job <= 3; job++ {
		l.run(job)
		r, err := eventlog.NewReader(strings.NewReader(strings.Join(lines(t, dir), "\n")+"\n"), "log")
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Source != "cluster" || r.Header.Began != "2001-09-09T01:46:40Z" {
			t.Errorf("the header is %+v", r.Header)
		}
		report, err := eventlog.Check(r)
		if err != nil || report.Jobs != int(job) || report.Done != int(job) || report.Until != l.now {
			t.Errorf("after job %d: %+v, %v", job, report, err)
		}
	}
	if l.said.Len() != 0 {
		t.Errorf("it has logged %s", l.said.String())
	}
}

// TestNewest: the log of the newest leadership is read, and a few old ones are kept. What else is
// in the directory stays.
func TestNewest(t *testing.T) {
	dir := t.TempDir()
	if err := Read(dir, nil); !errors.Is(err, ErrNone) {
		t.Errorf("an empty directory: %v", err)
	}
	other := filepath.Join(dir, "99999999999999999999.jsonl.gz")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range keepLogs + 5 {
		epoch := store.Epoch(8 + i*i) // 8, 9, 12, ..., 584
		begin(t, dir, epoch).run(1)
		names = append(names, fmt.Sprintf("%020d.jsonl", epoch))
		readsThatOf(t, dir, epoch)
		want := slices.Concat(names[max(0, len(names)-keepLogs):], []string{filepath.Base(other)})
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, entry := range entries {
			found = append(found, entry.Name())
		}
		if !slices.Equal(found, want) {
			t.Fatalf("leadership %d has left %q, want %q", epoch, found, want)
		}
	}
	begin(t, dir, 1000).run(1)
	begin(t, dir, 999).run(1) // as of a controller that has not seen the other one
	readsThatOf(t, dir, 1000)
}

// readsThatOf checks that the log of a leadership is read.
func readsThatOf(t *testing.T, dir string, epoch store.Epoch) {
	t.Helper()
	if header := lines(t, dir)[0]; !strings.Contains(header, fmt.Sprintf(`"policies of %d"`, epoch)) {
		t.Errorf("instead of the log of leadership %d, that of %s is read", epoch, header)
	}
}

// TestFullDisk: a disk without room ends the log, is told once, and does not disturb the scheduler.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, fmt.Sprintf("%020d.jsonl", 3))); err != nil {
		t.Fatal(err)
	}
	l := begin(t, dir, 3)
	l.run(1)
	l.run(2)
	if told := strings.Count(l.said.String(), "no space left on device"); told != 1 {
		t.Errorf("it was told %d times: %s", told, l.said.String())
	}
	if l.engine.Job(2) != nil {
		t.Error("the scheduler has not gone on")
	}
}

// TestTooLarge: a log does not grow without end.
func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 3)
	l.run(1)
	before := len(lines(t, dir))
	l.log.file.written = maxBytes - 1 // as after a long time
	l.run(2)
	l.run(3)
	if after := len(lines(t, dir)); after != before {
		t.Errorf("%d lines at the limit, %d after it", before, after)
	}
	if told := strings.Count(l.said.String(), errFull.Error()); told != 1 {
		t.Errorf("it was told %d times: %s", told, l.said.String())
	}
}

// TestNoPlace: without a directory there is no log, and the error names it.
func TestNoPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if log, err := Begin(file, Leadership{}, nil, nil); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, %v", log, err)
	}
	if err := Read(file, nil); !errors.Is(err, ErrNone) {
		t.Errorf("read: %v", err)
	}
}

// TestRead: half a line is not given, and an error of the reader ends the reading.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fmt.Sprintf("%020d.jsonl", 1))
	if err := os.WriteFile(path, []byte("one\n\ntwo\nthr"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, dir); !slices.Equal(got, []string{"one", "", "two"}) {
		t.Errorf("read %q", got)
	}
	enough, calls := errors.New("enough"), 0
	if err := Read(dir, func(string) error { calls++; return enough }); !errors.Is(err, enough) || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	// What is written meanwhile is of the next reading: a busy scheduler holds no reader up.
	var got []string
	err := Read(dir, func(line string) error {
		got = append(got, line)
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteString("ee\nmore\n")
		return errors.Join(err, file.Close())
	})
	if err != nil || !slices.Equal(got, []string{"one", "", "two"}) {
		t.Errorf("read %q of a log that grows, %v", got, err)
	}
}
