package cuda

import (
	"fmt"
	"math/bits"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// maxBytes bounds extents and pitches, so that sums and products of checked values cannot overflow.
const maxBytes = 1 << 48

// checkCopy refuses boxes whose rows or slices overlap, and sizes that are beyond any memory.
func checkCopy(w gpu.Copy) error {
	high, total := bits.Mul64(w.Extent[0], w.Extent[1])
	high2, total := bits.Mul64(total, w.Extent[2])
	if high|high2 != 0 || total > maxBytes {
		return &gpu.Error{Op: "copy", Code: abi.InvalidValue, Detail: fmt.Sprintf("extent %v is beyond any memory", w.Extent)}
	}
	if total == 0 || w.Extent[1] == 1 && w.Extent[2] == 1 {
		return nil
	}
	for _, p := range [...]gpu.Place{w.Dst, w.Src} {
		if w.Extent[1] > 1 && p.RowPitch < w.Extent[0] || p.RowPitch > maxBytes || p.SlicePitch > maxBytes ||
			w.Extent[2] > 1 && p.SlicePitch < (w.Extent[1]-1)*p.RowPitch+w.Extent[0] {
			return &gpu.Error{
				Op: "copy", Code: abi.InvalidValue,
				Detail: fmt.Sprintf("pitches %d, %d are too small for extent %v", p.RowPitch, p.SlicePitch, w.Extent),
			}
		}
	}
	return nil
}

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

// flatten joins rows, and then slices, that lie one behind the other on both sides, so that most copies become linear.
func flatten(w gpu.Copy) gpu.Copy {
	if w.Extent[1] == 1 {
		// A row per slice: the slices are the rows.
		w.Extent = [3]uint64{w.Extent[0], w.Extent[2], 1}
		w.Dst.RowPitch, w.Src.RowPitch = w.Dst.SlicePitch, w.Src.SlicePitch
	}
	if w.Extent[1] > 1 && w.Dst.RowPitch == w.Extent[0] && w.Src.RowPitch == w.Extent[0] {
		w.Extent = [3]uint64{w.Extent[0] * w.Extent[1], 1, w.Extent[2]}
		if w.Extent[2] > 1 {
			return flatten(w)
		}
	}
	return w
}

// peer is the memory of another device, if that is what a place means.
func peer(p gpu.Place) *Memory {
	m, _ := p.Host.(*Memory)
	return m
}

// onDevices reports whether no end of a copy is the program's own memory.
func onDevices(w gpu.Copy) bool {
	return (w.Dst.Host == nil || peer(w.Dst) != nil) && (w.Src.Host == nil || peer(w.Src) != nil)
}

// eachPlane calls do for each slice of a flattened copy.
func eachPlane(w gpu.Copy, do func(dst, src gpu.Place, width, rows uint64) error) error {
	if w.Extent[0] == 0 || w.Extent[1] == 0 || w.Extent[2] == 0 {
		return nil
	}
	w = flatten(w)
	for slice := range w.Extent[2] {
		dst, src := w.Dst, w.Src
		dst.Address += slice * dst.SlicePitch
		src.Address += slice * src.SlicePitch
		if err := do(dst, src, w.Extent[0], w.Extent[1]); err != nil {
			return err
		}
	}
	return nil
}

// copyOnDevices gives a copy to the driver.
func (s *Stream) copyOnDevices(w gpu.Copy) error {
	c := s.context
	return eachPlane(w, func(dst, src gpu.Place, width, rows uint64) error {
		switch {
		case dst.Host != nil || src.Host != nil:
			return s.copyPeers(dst, src, width, rows)
		case rows == 1:
			return c.driver.MemcpyAsync(c.native, dst.Address, src.Address, width, s.native)
		}
		return c.driver.CopyBox(c.native, plane(dst, src, width, rows), s.native)
	})
}

// plane is a box of one slice.
func plane(dst, src gpu.Place, width, rows uint64) cudadrv.Box {
	return cudadrv.Box{
		Dst: dst.Address, Src: src.Address, Extent: [3]uint64{width, rows, 1},
		DstPitch: dst.RowPitch, SrcPitch: src.RowPitch, DstHeight: rows, SrcHeight: rows,
	}
}

// copyPeers copies between devices, row by row.
func (s *Stream) copyPeers(dst, src gpu.Place, width, rows uint64) error {
	c := s.context
	end := func(p gpu.Place) cudadrv.Context {
		if m := peer(p); m != nil {
			return m.context.native
		}
		return c.native
	}
	for row := range rows {
		err := c.driver.MemcpyPeerAsync(c.native, dst.Address+row*dst.RowPitch, end(dst), src.Address+row*src.RowPitch, end(src), width, s.native)
		if err != nil {
			return err
		}
	}
	return nil
}
