package inventory

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Role is the argument that makes phosd the child process that queries NVML.
const Role = "inventory"

// query is what Watch writes for an inventory.
const query = "inventory\n"

// message is a line that the child writes: an answer, in the order of the queries, or an event.
type message struct {
	Inventory *Inventory `json:"inventory,omitempty"`
	Event     *Event     `json:"event,omitempty"`
	// Failed is why there is no inventory, and Kind the kind of that error.
	Failed string `json:"failed,omitempty"`
	Kind   kind   `json:"kind,omitempty"`
}

// kind identifies an error across the two processes.
type kind string

const (
	kindNoDriver    kind = "no driver"
	kindUnsupported kind = "unsupported"
)

// failure is an error of the child.
type failure struct {
	text string
	kind kind
}

// Error returns the child's error text.
func (f *failure) Error() string { return f.text }

// Is implements errors.Is for the kinds.
func (f *failure) Is(target error) bool {
	return target == ErrNoDriver && f.kind == kindNoDriver || target == ErrUnsupported && f.kind == kindUnsupported
}

// failed returns the answer for an error.
func failed(err error) message {
	m := message{Failed: err.Error()}
	switch {
	case errors.Is(err, ErrNoDriver):
		m.Kind = kindNoDriver
	case errors.Is(err, ErrUnsupported):
		m.Kind = kindUnsupported
	}
	return m
}

// Serve answers queries from in and reports events until in ends. If open fails, every query is
// answered with that error.
func Serve(open func() (Source, error), in io.Reader, out io.Writer) error {
	source, err := open()
	lines := &lineWriter{encoder: json.NewEncoder(out)}
	if err != nil {
		return answer(in, lines, func() message { return failed(err) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reporting sync.WaitGroup
	reporting.Go(func() {
		// Events are optional: a lost GPU shows in the inventory too.
		_ = source.Events(ctx, func(e Event) { _ = lines.write(message{Event: &e}) })
	})
	err = answer(in, lines, func() message {
		found, err := source.Inventory()
		if err != nil {
			return failed(err)
		}
		return message{Inventory: found}
	})
	cancel()
	reporting.Wait()
	return errors.Join(err, source.Close())
}

// answer answers queries until in ends.
func answer(in io.Reader, lines *lineWriter, next func() message) error {
	queries := bufio.NewScanner(in)
	for queries.Scan() {
		if lines.write(next()) != nil {
			return nil // phosd has ended
		}
	}
	if err := queries.Err(); err != nil {
		return fmt.Errorf("read queries: %w", err)
	}
	return nil
}

// lineWriter keeps events and answers from interleaving.
type lineWriter struct {
	mu      sync.Mutex // guards encoder
	encoder *json.Encoder
}

func (l *lineWriter) write(m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.encoder.Encode(m)
}
