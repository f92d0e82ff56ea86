package soft

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// prepare checks work at submission, where errors still belong to the call, and resolves the
// current recordings of its events.
func (c *Context) prepare(it *item) error {
	switch work := it.work.(type) {
	case gpu.Record:
		m, err := c.newRecording(work.Event)
		it.recording = m
		return err
	case gpu.Await:
		event, err := openEvent(work.Event, "wait for event")
		if err != nil {
			return err
		}
		it.recording = event.latest.Load()
		return nil
	}
	return c.checks.Work(it.work)
}

// checks returns the checks of work for a context.
func checks(launch func(gpu.Launch) error) gpu.Checks {
	return gpu.Checks{Launch: launch, Event: func(event gpu.Event, op string) error {
		_, err := openEvent(event, op)
		return err
	}}
}

// perform runs one piece of work. An error becomes the context's fault.
func (c *Context) perform(work gpu.Work, m *recording) error {
	switch work := work.(type) {
	case gpu.Launch:
		return c.launch(work)
	case gpu.Copy:
		return c.copyPlanes(work)
	case gpu.Fill:
		return c.fill(work)
	case gpu.MemoryOps:
		return c.memoryOps(work)
	case gpu.Record:
		m.complete()
	case gpu.Await:
		if m != nil {
			select {
			case <-m.wait():
			case <-c.running.Done():
			}
		}
	case gpu.Call:
		work.Func()
	case gpu.Completion:
		work.Func()
	}
	return nil
}

// newRecording makes a new recording the latest of an event.
func (c *Context) newRecording(event gpu.Event) (*recording, error) {
	e, err := openEvent(event, "record event")
	if err != nil {
		return nil, err
	}
	if e.context != c {
		return nil, &gpu.Error{Op: "record event", Code: abi.InvalidHandle, Detail: "the event belongs to another context"}
	}
	m := &recording{}
	e.latest.Store(m)
	return m, nil
}

// openEvent returns the event as this backend's type, if it is open.
func openEvent(event gpu.Event, op string) (*Event, error) {
	e, ok := event.(*Event)
	if !ok || e.closed.Load() {
		return nil, &gpu.Error{Op: op, Code: abi.InvalidHandle, Detail: "no such event"}
	}
	return e, nil
}
