package soft

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// fill runs a fill row by row; contiguous rows count as one.
func (c *Context) fill(w gpu.Fill) error {
	size := uint64(w.PatternBytes)
	if w.Columns == 0 || w.Rows == 0 {
		return nil
	}
	if w.Rows > 1 && w.RowPitch == w.Columns*size {
		w.Columns, w.Rows = w.Columns*w.Rows, 1
	}
	for row := range w.Rows {
		if err := c.fillLine(w.Address+row*w.RowPitch, w, w.Columns*size); err != nil {
			return err
		}
	}
	return nil
}

// fillLine fills contiguous bytes. Large fills use all cores.
func (c *Context) fillLine(address uint64, w gpu.Fill, bytes uint64) error {
	size := uint64(w.PatternBytes)
	if bytes < splitBytes {
		return c.memory.Fill(address, w.Pattern, w.PatternBytes, bytes/size)
	}
	// Parts are whole chunks and therefore whole patterns.
	return c.split(bytes, func(at, n uint64) error {
		return c.memory.Fill(address+at, w.Pattern, w.PatternBytes, n/size)
	})
}

// A waiting operation polls pollSpins times in a row, then once per pollInterval: writes of the
// word by kernels and programs cannot be observed.
const (
	pollSpins    = 200
	pollInterval = 20 * time.Microsecond
)

// memoryOps runs operations on words in order and blocks on those that wait.
func (c *Context) memoryOps(work gpu.MemoryOps) error {
	for _, op := range work.Ops {
		do := c.writeWord
		if op.Wait {
			do = c.awaitWord
		}
		if err := do(&op); err != nil {
			return fmt.Errorf("memory operation: %w", err)
		}
	}
	return nil
}

// runUntilWait runs operations up to the first whose wait is not met. It returns the rest, which
// begins with the failed operation if there is an error.
func (c *Context) runUntilWait(ops []gpu.MemoryOp) (rest []gpu.MemoryOp, err error) {
	for ; len(ops) > 0; ops = ops[1:] {
		op := &ops[0]
		if !op.Wait {
			if err := c.writeWord(op); err != nil {
				return ops, err
			}
			continue
		}
		if word, err := c.readWord(op); err != nil || !op.Met(word) {
			return ops, err
		}
	}
	return nil, nil
}

// readWord reads the word of an operation.
func (c *Context) readWord(op *gpu.MemoryOp) (word uint64, err error) {
	err = c.memory.Access(gpu.Range{Address: op.Address, Bytes: uint64(op.Bytes)}, false, func(piece []byte) error {
		word = loadWord(piece)
		return nil
	})
	return word, err
}

// writeWord writes the word of an operation.
func (c *Context) writeWord(op *gpu.MemoryOp) error {
	return c.memory.Access(gpu.Range{Address: op.Address, Bytes: uint64(op.Bytes)}, true, func(piece []byte) error {
		storeWord(piece, op.Value)
		return nil
	})
}

// awaitWord polls until the operation's condition is met. It returns early when the context is
// poisoned or closed.
func (c *Context) awaitWord(op *gpu.MemoryOp) error {
	for spins := 0; ; spins++ {
		word, err := c.readWord(op)
		if err != nil || op.Met(word) {
			return err
		}
		if spins < pollSpins {
			runtime.Gosched()
			continue
		}
		select {
		case <-c.running.Done():
			return nil
		case <-time.After(pollInterval):
		}
	}
}

// loadWord reads a word with one load. Kernels and programs may write it at the same time.
//
//go:norace
//go:noinline
func loadWord(piece []byte) uint64 {
	if len(piece) == 4 {
		return uint64(binary.LittleEndian.Uint32(piece))
	}
	return binary.LittleEndian.Uint64(piece)
}

// storeWord writes a word with one store.
//
//go:norace
//go:noinline
func storeWord(piece []byte, value uint64) {
	if len(piece) == 4 {
		binary.LittleEndian.PutUint32(piece, uint32(value))
		return
	}
	binary.LittleEndian.PutUint64(piece, value)
}
