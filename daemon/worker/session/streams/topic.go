package streams

import (
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Streams handles the calls about streams, events, and functions of the program that streams run.
type Streams struct {
	*core.Core
	callbacks callbacks
	words     words
	// unopened are events of other sessions that a restore has not opened again yet.
	unopened []*event
}

// New returns the topic of a session.
func New(c *core.Core) *Streams {
	s := &Streams{Core: c}
	s.callbacks.session = s
	return s
}

// Close lets all streams go that wait for functions of the program.
func (s *Streams) Close() { s.callbacks.close() }

// SendCallback asks the program to run a function, some time later.
func (s *Streams) SendCallback(callback wire.Callback) { s.callbacks.send(callback) }

// Save writes what is beside the objects.
func (s *Streams) Save(e *core.Encoder) {
	e.Out.LastCallback, e.Out.Words = s.callbacks.last(), s.words.Save()
}

// RestoreCounters brings what is beside the objects.
func (s *Streams) RestoreCounters(r *core.Decoder) error {
	s.callbacks.resume(r.In.LastCallback)
	return s.words.restore(&r.In.Words)
}

// Restore makes the state of an object, nil for an object of another topic.
func (s *Streams) Restore(r *core.Decoder, o *object.Object, in saved.State) (core.State, error) {
	switch in := in.(type) {
	case *saved.Stream:
		return s.restoreStream(o, in)
	case *saved.Event:
		return s.restoreEvent(r, o, in)
	}
	return nil, nil
}

// Release frees what an object held when it is destroyed, by itself or with its parent.
func (s *Streams) Release(o *object.Object) {
	switch state := o.State.(type) {
	case *core.Stream:
		state.Close()
	case *event:
		state.drop(s)
	}
}
