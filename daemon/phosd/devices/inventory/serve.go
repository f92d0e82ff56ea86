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

// Role is the argument by which phosd becomes the process that asks NVML.
const Role = "inventory"

// question is what Watch writes for an inventory.
const question = "inventory\n"

// message is a line of the answering side: an answer, in the order of the questions, or an event.
type message struct {
	Inventory *Inventory `json:"inventory,omitempty"`
	Event     *Event     `json:"event,omitempty"`
	// Failed is the answer in the place of an inventory, and Kind what phosd must tell apart of it.
	Failed string `json:"failed,omitempty"`
	Kind   kind   `json:"kind,omitempty"`
}

// kind is an error across the two processes.
type kind string

const (
	kindNoDriver    kind = "no driver"
	kindUnsupported kind = "unsupported"
)

// failure is an error that came from the other process.
type failure struct {
	text string
	kind kind
}

// Error is its text there.
func (f *failure) Error() string { return f.text }

// Is tells apart what matters.
func (f *failure) Is(target error) bool {
	return target == ErrNoDriver && f.kind == kindNoDriver || target == ErrUnsupported && f.kind == kindUnsupported
}

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

// Serve answers questions from in, and tells of events, until in ends. Where open fails, every
// question is answered by that error.
func Serve(open func() (Source, error), in io.Reader, out io.Writer) error {
	source, err := open()
	lines := &lineWriter{encoder: json.NewEncoder(out)}
	if err != nil {
		return answer(in, lines, func() message { return failed(err) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	telling.Go(func() {
		// Without events the inventory is as good; a lost GPU shows there too.
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
	telling.Wait()
	return errors.Join(err, source.Close())
}

func answer(in io.Reader, lines *lineWriter, next func() message) error {
	questions := bufio.NewScanner(in)
	for questions.Scan() {
		if lines.write(next()) != nil {
			return nil // nobody listens any more
		}
	}
	if err := questions.Err(); err != nil {
		return fmt.Errorf("read questions: %w", err)
	}
	return nil
}

// lineWriter lets an event not stand in the midst of an answer.
type lineWriter struct {
	mu      sync.Mutex // guards encoder
	encoder *json.Encoder
}

func (l *lineWriter) write(m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.encoder.Encode(m)
}
