package decisions

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/eventlog"
)

// Limits of what is kept.
const (
	keepLogs = 20
	maxBytes = 256 << 20
)

// suffix is that of the files. Their names are numbers of leaderships, of equal width.
const suffix = ".jsonl"

// Log is the log of one leadership.
type Log struct {
	file   *bounded
	writer *eventlog.Writer
	events *eventlog.Log
	log    *slog.Logger
}

// Leadership is whose decisions a log has.
type Leadership struct {
	Epoch store.Epoch
	// Began is time 0 of the scheduler.
	Began time.Time
	// Policies are those of the scheduler, in words.
	Policies string
}

// Begin begins the log of a leadership. The engine has made no step yet. Old logs are removed.
func Begin(dir string, of Leadership, engine *scheduler.Engine, log *slog.Logger) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("log of decisions: %w", err)
	}
	removeOld(dir)
	path := filepath.Join(dir, fmt.Sprintf("%020d", of.Epoch)+suffix)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of decisions: %w", err)
	}
	l := &Log{file: &bounded{file: file}, log: log}
	l.writer, err = eventlog.NewWriter(l.file, eventlog.Header{
		Source: "cluster", Began: of.Began.UTC().Format(time.RFC3339Nano),
		Scheduler: map[string]string{"policies": of.Policies},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log of decisions: %w", err), file.Close())
	}
	l.events = eventlog.NewLog(engine, l.writer)
	return l, nil
}

// Step writes a step of the engine. It returns no error: launches are scheduled without a log.
func (l *Log) Step(now time.Duration, events []scheduler.Event, plan scheduler.Plan, stepErr error) error {
	if l.file.file == nil {
		return nil
	}
	err := l.events.Step(now, events, plan, stepErr)
	if err == nil {
		err = l.writer.Flush()
	}
	if err != nil {
		l.log.Warn("the log of decisions ends", "error", err)
		l.Close()
	}
	return nil
}

// Close ends the log.
func (l *Log) Close() {
	if l.file.file != nil {
		_ = l.file.file.Close() // all was written, as far as it could be
		l.file.file = nil
	}
}

// errFull means that a log has become too large.
var errFull = errors.New("it is full; the next leadership begins another")

// bounded is a file that does not grow without end.
type bounded struct {
	file    *os.File
	written int
}

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	if b.written += len(text); b.written > maxBytes {
		return 0, errFull
	}
	return b.file.Write(text)
}

// list returns the logs, the oldest first.
func list(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, strings.Repeat("[0-9]", 20)+suffix)) // the pattern is valid
	slices.Sort(found)
	return found
}

// removeOld makes room for one more log.
func removeOld(dir string) {
	found := list(dir)
	for _, path := range found[:max(0, len(found)-keepLogs+1)] {
		_ = os.Remove(path) // the next leadership tries again
	}
}
