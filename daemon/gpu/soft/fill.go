package soft

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// checkFill refuses patterns that do not exist or do not fit.
func checkFill(w gpu.Fill) error {
	size := uint64(w.PatternBytes)
	if size != 1 && size != 2 && size != 4 {
		return &gpu.Error{Op: "fill", Code: abi.InvalidValue, Detail: fmt.Sprintf("pattern of %d bytes", size)}
	}
	if w.Columns > maxBytes || w.Rows > maxBytes || w.RowPitch > maxBytes {
		return &gpu.Error{Op: "fill", Code: abi.InvalidValue, Detail: "the size is beyond any memory"}
	}
	if w.Address%size != 0 || w.Rows > 1 && (w.RowPitch < w.Columns*size || w.RowPitch%size != 0) {
		return &gpu.Error{
			Op: "fill", Code: abi.InvalidValue,
			Detail: fmt.Sprintf("address %#x or pitch %d does not fit patterns of %d bytes", w.Address, w.RowPitch, size),
		}
	}
	return nil
}

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

func (c *Context) fillLine(address uint64, w gpu.Fill, bytes uint64) error {
	size := uint64(w.PatternBytes)
	if bytes < splitBytes {
		return c.memory.Fill(address, w.Pattern, w.PatternBytes, bytes/size)
	}
	// Parts are whole chunks and so whole patterns.
	return c.split(bytes, func(at, n uint64) error {
		return c.memory.Fill(address+at, w.Pattern, w.PatternBytes, n/size)
	})
}
