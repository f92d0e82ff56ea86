package core

import (
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// fence is an event that Progress puts at the end of a stream to see how long its work takes to get
// there.
type fence struct {
	event gpu.Event
	since time.Time
	open  bool
}

// Handle returns the stream's handle, 0 for a default stream.
func (st *Stream) Handle() abi.Handle {
	if st.Object == nil {
		return 0
	}
	return st.Object.Handle()
}

// Watch reports since when the stream has had work, counted from the first call that saw it busy.
func (st *Stream) Watch(at time.Time) (since time.Time, busy bool) {
	if st.Idle() {
		st.fence.open = false
		return since, false
	}
	if st.fence.open && gpu.Code(st.fence.event.Query()) == abi.NotReady {
		return st.fence.since, true
	}
	if st.fence.event == nil {
		event, err := st.Context.Device.GPU.NewEvent(gpu.EventOptions{})
		if err != nil {
			return since, false
		}
		st.fence.event = event
	}
	if st.Submit(gpu.Record{Event: st.fence.event}) != nil {
		return since, false
	}
	st.fence.since, st.fence.open = at, true
	return at, true
}

// Unfinished says what of the stream is not over, in words; nothing where all is.
func (st *Stream) Unfinished() string {
	name := "the default stream of " + st.Context.Object.Handle().String()
	if st.Object != nil {
		name = st.Object.Handle().String()
	}
	switch {
	case !st.Work.Idle():
		return name + " is not done"
	case st.Object != nil && st.Object.State == nil:
		return name + " is being destroyed"
	}
	return ""
}
