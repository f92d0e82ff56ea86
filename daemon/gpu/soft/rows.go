package soft

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// copyRows copies rows that are not contiguous on at least one side.
func (c *Context) copyRows(dst, src gpu.Place, width, rows uint64) error {
	switch {
	case dst.Host == nil && src.Host == nil:
		return c.copyDeviceRows(dst, src, width, rows)
	case width > stagingBytes/2 || dst.Host != nil && src.Host != nil:
		for row := range rows {
			d, s := dst, src
			d.Address += row * dst.RowPitch
			s.Address += row * src.RowPitch
			if err := c.copyLine(d, s, width); err != nil {
				return err
			}
		}
		return nil
	}
	return c.stageRows(dst, src, width, rows)
}

// copyDeviceRows copies rows between device addresses and reuses spans from row to row.
func (c *Context) copyDeviceRows(dst, src gpu.Place, width, rows uint64) error {
	cur := newCursor(c.device.space)
	defer cur.close()
	for row := range rows {
		for at := uint64(0); at < width; {
			out, in, err := cur.pair(dst.Address+row*dst.RowPitch+at, src.Address+row*src.RowPitch+at)
			if err != nil {
				return fmt.Errorf("copy: %w", err)
			}
			at += cur.consume(copy(out[:min(uint64(len(out)), width-at)], in))
		}
	}
	return nil
}

// stageRows copies narrow rows between device and host through a buffer of many rows, because each
// access to host memory costs a system call. Host memory that is not contiguous is still accessed
// row by row.
func (c *Context) stageRows(dst, src gpu.Place, width, rows uint64) error {
	perBuffer := min(rows, stagingBytes/width)
	buffer := make([]byte, perBuffer*width)
	for row := uint64(0); row < rows; row += perBuffer {
		n := min(perBuffer, rows-row)
		d, s := dst, src
		d.Address += row * dst.RowPitch
		s.Address += row * src.RowPitch
		piece := buffer[:n*width]
		if src.Host == nil {
			if err := c.deviceRows(s, piece, width, false); err != nil {
				return err
			}
			if !d.HostRows(piece, width, dst.Host.WriteAt) {
				return nil
			}
			continue
		}
		if !s.HostRows(piece, width, src.Host.ReadAt) {
			return nil
		}
		if err := c.deviceRows(d, piece, width, true); err != nil {
			return err
		}
	}
	return nil
}

// deviceRows scatters the rows of a buffer to device memory, or gathers them from it.
func (c *Context) deviceRows(p gpu.Place, buffer []byte, width uint64, scatter bool) error {
	cur := newCursor(c.device.space)
	defer cur.close()
	for row := uint64(0); row*width < uint64(len(buffer)); row++ {
		line := buffer[row*width : (row+1)*width]
		for at := uint64(0); at < width; {
			memory, err := cur.single(p.Address+row*p.RowPitch+at, scatter)
			if err != nil {
				return fmt.Errorf("copy: %w", err)
			}
			if scatter {
				at += cur.consume(copy(memory, line[at:]))
			} else {
				at += cur.consume(copy(line[at:], memory))
			}
		}
	}
	return nil
}
