package saved

import (
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/hijack/abi"
)

// newState returns an empty state for a kind of objects, or nil for an unknown kind.
func newState(kind abi.Kind) State {
	switch kind {
	case abi.KindContext:
		return &Context{}
	case abi.KindModule:
		return &Module{}
	case abi.KindFunction:
		return &Function{}
	case abi.KindStream:
		return &Stream{}
	case abi.KindEvent:
		return &Event{}
	case abi.KindGraph:
		return &Graph{}
	case abi.KindGraphExec:
		return &Executable{}
	case abi.KindMemoryPool:
		return &Pool{}
	case abi.KindLibrary:
		return &Library{}
	case abi.KindKernel:
		return &Kernel{}
	case abi.KindUserObject:
		return &UserObject{}
	case abi.KindAllocation:
		return &Block{}
	case object.KindImported:
		return &Import{}
	case object.KindMemory, object.KindPinned:
		return &Memory{}
	case object.KindRegistered:
		return &Registered{}
	default:
		return nil
	}
}
