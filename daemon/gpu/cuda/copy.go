package cuda

import (
	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// peer is the memory of another device, if that is what a place means.
func peer(p gpu.Place) *Memory {
	m, _ := p.Host.(*Memory)
	return m
}

// onDevices reports whether no end of a copy is the program's own memory.
func onDevices(w gpu.Copy) bool {
	return (w.Dst.Host == nil || peer(w.Dst) != nil) && (w.Src.Host == nil || peer(w.Src) != nil)
}

// copyOnDevices gives a copy to the driver.
func (s *Stream) copyOnDevices(w gpu.Copy) error {
	c := s.context
	return w.EachPlane(func(dst, src gpu.Place, width, rows uint64) error {
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
