package copies

import (
	"encoding/binary"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Operations on words of memory in stream order, CUstreamBatchMemOpType numbers. What is not here
// moves no memory: barriers.
const (
	memOpWait32  = 1
	memOpWrite32 = 2
	memOpWait64  = 4
	memOpWrite64 = 5
)

// memOpWords is how many words an operation has in a frame: its type with its flags above, address
// and value.
const memOpWords = 3

// comparison is the part of a wait's flags that says what it waits for; the rest is about other
// processors' writes.
const comparison = 3

// ParseMemoryOps reads operations as they come in a frame.
func ParseMemoryOps(words wire.Words) (gpu.MemoryOps, error) {
	var out gpu.MemoryOps
	if words.Len()%memOpWords != 0 {
		return out, core.Invalid("read memory operations", "one is cut off")
	}
	for i := 0; i < words.Len(); i += memOpWords {
		kind, flags := uint32(words.At(i)), uint32(words.At(i)>>32)
		op := gpu.MemoryOp{Bytes: 4, Address: words.At(i + 1), Value: words.At(i + 2)}
		switch kind {
		case memOpWait64, memOpWrite64:
			op.Bytes = 8
		case memOpWait32, memOpWrite32:
			op.Value = uint64(uint32(op.Value))
		default:
			return out, core.Invalid("read memory operations", fmt.Sprintf("type %d", kind))
		}
		if op.Wait = kind == memOpWait32 || kind == memOpWait64; op.Wait {
			op.Until = gpu.Comparison(flags & comparison)
		}
		if op.Address%uint64(op.Bytes) != 0 {
			return out, core.Invalid("read memory operations", fmt.Sprintf("%#x is not aligned", op.Address))
		}
		out.Ops = append(out.Ops, op)
	}
	return out, nil
}

// EncodeMemoryOps is the reverse of memoryOps.
func EncodeMemoryOps(ops gpu.MemoryOps) []byte {
	var out []byte
	for _, op := range ops.Ops {
		kind := uint64(memOpWrite32)
		if op.Wait {
			kind = memOpWait32 | uint64(op.Until)<<32
		}
		if op.Bytes == 8 {
			kind += memOpWait64 - memOpWait32
		}
		for _, word := range []uint64{kind, op.Address, op.Value} {
			out = binary.LittleEndian.AppendUint64(out, word)
		}
	}
	return out
}

// CheckMemoryOps finds words that are no memory of the session's.
func (s *Copies) CheckMemoryOps(d *core.Device, ops gpu.MemoryOps) error {
	for _, op := range ops.Ops {
		if _, err := s.memory.CheckRange(d, gpu.Range{Address: op.Address, Bytes: uint64(op.Bytes)}, !op.Wait); err != nil {
			return err
		}
	}
	return nil
}

func (s *Copies) streamMemOps(call *core.Call, in *wire.StreamMemOps) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	ops, err := ParseMemoryOps(in.Ops)
	if err != nil {
		return err
	}
	if err := s.CheckMemoryOps(st.Context.Device, ops); err != nil {
		return err
	}
	if st.Line.Capturing() {
		_, err := st.Line.Add(graph.MemoryOps{MemoryOps: ops})
		return err
	}
	if err := s.RequireUncaptured(st, "memory operations"); err != nil {
		return err
	}
	return st.Enqueue(ops)
}
