package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// tables are what ps --watch --json prints: the names of the launches of each line.
type tables struct {
	*testing.T
	lines *json.Decoder
	stop  context.CancelFunc
	ended chan error
	begun time.Time
	count int
}

// watchTables starts ps --watch, which prints nothing by itself: all it prints is of changes.
func watchTables(t *testing.T, options psOptions) *tables {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	w := &tables{T: t, lines: json.NewDecoder(read), stop: cancel, ended: make(chan error, 1), begun: time.Now()}
	options.asJSON = true
	go func() {
		w.ended <- watchPS(ctx, verb.Streams{Out: write, Err: io.Discard}, options, time.Hour)
		_ = write.Close() // it cannot fail
	}()
	t.Cleanup(func() { cancel(); _ = read.Close() })
	return w
}

// await reads until the launches have these names.
func (w *tables) await(want string) {
	w.Helper()
	for {
		var line []struct{ Name string }
		if err := w.lines.Decode(&line); err != nil {
			w.Fatalf("before %q: %v", want, err)
		}
		w.count++
		var names []string
		for _, each := range line {
			names = append(names, each.Name)
		}
		if strings.Join(names, " ") == want {
			return
		}
	}
}

// end ends the watch as Ctrl-C does.
func (w *tables) end() {
	w.Helper()
	w.stop()
	if err := <-w.ended; err != nil {
		w.Errorf("the end is a failure: %v", err)
	}
	if _, err := w.lines.Token(); err != io.EOF {
		w.Errorf("after its end: %v", err)
	}
}

// TestWatch: ps --watch shows each change when it comes, at most some times a second, and goes on
// with the next controller.
func TestWatch(t *testing.T) {
	c, first := inCluster(t)
	c.Add(&api.Launch{Name: "one", Phase: "running"})
	w := watchTables(t, psOptions{})
	w.await("one")
	two := c.Add(&api.Launch{Name: "two", Phase: "queued"})
	w.await("two one")
	for range 1000 {
		c.Change(func() {})
	}
	c.Change(func() { two.Phase = "ended" })
	w.await("one")
	first.Kill()
	c.Add(&api.Launch{Name: "three", Phase: "queued"})
	next := c.ListenAt(t, first.Socket)
	w.await("three one")
	seen := next.Seen()
	c.Add(&api.Launch{Name: "four", Phase: "queued"})
	w.await("four three one")
	if next.Seen() != seen {
		t.Errorf("%d requests were made to see a change", next.Seen()-seen)
	}
	if most := 1 + int(time.Since(w.begun)/drawEvery); w.count > most {
		t.Errorf("%d tables, where %d is the most", w.count, most)
	}
	w.end()
}

// TestWatchEnded: with --all, launches stay when they end.
func TestWatchEnded(t *testing.T) {
	c, _ := inCluster(t)
	one := c.Add(&api.Launch{Name: "one", Phase: "running"})
	w := watchTables(t, psOptions{ended: true})
	w.await("one")
	c.Change(func() { one.Phase = "ended" })
	c.Add(&api.Launch{Name: "two", Phase: "queued"})
	w.await("two one")
	w.end()
}

// TestWatchRefused: a cluster that refuses is an error.
func TestWatchRefused(t *testing.T) {
	_, k := inCluster(t)
	k.Fail(func(string) error { return api.ErrNotPermitted })
	if err := <-watchTables(t, psOptions{}).ended; err == nil || !strings.Contains(err.Error(), api.ErrNotPermitted.Error()) {
		t.Errorf("refused: %v", err)
	}
}
