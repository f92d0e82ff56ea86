package core

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Topic handles the calls about some kinds of objects; it saves, restores and releases these. All
// of its methods are called with Core.Mu held.
type Topic interface {
	// Dispatch runs the handler of a call and returns its reply, nil for none.
	Dispatch(call *Call) (wire.Reply, error)
	// Save writes what the topic keeps beside its objects.
	Save(e *Encoder)
	// Restore makes the state of an object; nil for an object of another topic.
	Restore(d *Decoder, o *object.Object, in saved.State) (State, error)
	// Release frees what an object held. It does nothing for an object of another topic.
	Release(o *object.Object)
}

// State is what a topic keeps with an object.
type State interface {
	Save(e *Encoder) saved.State
}

// ErrUnknownCall is the answer to a number that no call has.
var ErrUnknownCall error = &gpu.Error{Op: "dispatch", Code: abi.NotSupported, Detail: "unknown call"}
