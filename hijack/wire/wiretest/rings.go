package wiretest

import (
	"encoding/binary"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// TakeCallback takes the oldest callback. It returns false if there is none.
func (p *Program) TakeCallback() (wire.Callback, bool) {
	file := p.view.Load().file
	head, tail := file.Word64(wire.WordCallbackHead), file.Word64(wire.WordCallbackTail)
	at := tail.Load()
	if head.Load() == at {
		return wire.Callback{}, false
	}
	record := file.Region(wire.CallbackOffset, wire.CallbackBytes)[at%wire.CallbackBytes:]
	callback := wire.Callback{
		Kind:     binary.LittleEndian.Uint32(record),
		Function: binary.LittleEndian.Uint64(record[8:]),
		UserData: binary.LittleEndian.Uint64(record[16:]),
		Stream:   abi.Handle(binary.LittleEndian.Uint64(record[24:])),
		Status:   abi.Result(binary.LittleEndian.Uint32(record[32:])),
		ID:       binary.LittleEndian.Uint64(record[40:]),
	}
	tail.Store(at + wire.CallbackRecord)
	return callback, true
}

// Output takes the output of device printf.
func (p *Program) Output() string {
	file := p.view.Load().file
	head, tail := file.Word64(wire.WordOutputHead), file.Word64(wire.WordOutputTail)
	ring := file.Region(wire.OutputOffset, wire.OutputBytes)
	var text []byte
	to := head.Load()
	for at := tail.Load(); at < to; at++ {
		text = append(text, ring[at%wire.OutputBytes])
	}
	tail.Store(to)
	return string(text)
}
