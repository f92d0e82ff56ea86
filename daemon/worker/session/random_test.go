package session

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// nonsense makes arguments that are often something, and rarely the right thing.
type nonsense struct {
	*rand.Rand
	memory uint64
}

func (n *nonsense) word() uint64 {
	switch n.IntN(8) {
	case 0, 1, 2:
		return uint64(abi.NewHandle(abi.Kind(1+n.IntN(int(abi.LastKind))), uint32(1+n.IntN(8))))
	case 3:
		return n.memory + uint64(n.IntN(8))*512 - uint64(n.IntN(3))
	case 4:
		return programBase + uint64(n.IntN(4))*1000
	case 5:
		odd := []uint64{
			1 << 20,
			1<<31 - 1,
			1 << 31,
			1 << 32,
			1 << 47,
			1 << 63,
			^uint64(0),
			arenaBase,
			arenaBase + 1<<19,
			programBase + 8<<20,
		}
		return odd[n.IntN(len(odd))]
	}
	return uint64(n.IntN(5))
}

func (n *nonsense) payload() []byte {
	var payload []byte
	for range n.IntN(16) {
		payload = binary.LittleEndian.AppendUint64(payload, n.word())
	}
	for range n.IntN(3) {
		words := n.IntN(4)
		payload = binary.LittleEndian.AppendUint64(payload, uint64(8*words))
		for range words {
			payload = binary.LittleEndian.AppendUint64(payload, n.word())
		}
	}
	return payload
}

// TestRandomCalls makes calls at random, thousands on end in one session: what they find there was
// made by calls at random. The session must neither panic nor stop answering; FuzzDispatch knows
// single calls only.
func TestRandomCalls(t *testing.T) {
	sessions, calls := 40, 4000
	if testing.Short() {
		sessions = 4
	}
	for seed := range uint64(sessions) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomCalls(t, seed, calls) })
	}
}

func randomCalls(t *testing.T, seed uint64, calls int) {
	p := softProgram(t, "soft:1,memory=256MiB", 8<<20)
	n := &nonsense{Rand: rand.New(rand.NewPCG(seed, 1)), memory: p.alloc(1 << 20)}
	p.callback = func(callback wire.Callback) { p.session.streams.FinishCallback(callback.ID) }
	module := p.load(doubleText)
	p.ok(
		abi.CallModuleGetFunction,
		&wire.ModuleGetFunction{Hmod: module, Name: "double"},
		&wire.ModuleGetFunctionReply{},
	)
	p.stream(0)
	p.event()
	all := abi.Calls()
	for range calls {
		p.postRaw(all[n.IntN(len(all))], n)
	}
	// It may have lost its context, not its life.
	p.ok(abi.CallPing, nil, nil)
}

// postRaw sends bytes as a call.
func (p *program) postRaw(number abi.Call, n *nonsense) {
	p.mu.Lock()
	p.sequence++
	call := &Call{
		Number:   number,
		Slot:     uint32(n.IntN(3)),
		Sequence: p.sequence,
		Context:  uint32(p.context),
		Flags:    uint16(graph.Mode(n.IntN(3))) << wire.FlagModeShift,
	}
	if number.Class() != abi.ClassAsync {
		call.Flags |= wire.FlagWait
		p.replies[p.sequence] = make(chan answer, 1)
	}
	p.mu.Unlock()
	call.Payload = n.payload()
	p.session.Dispatch(call)
}
