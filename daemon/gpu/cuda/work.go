package cuda

import (
	"slices"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// prepare checks work at submission, where an error still belongs to the call, and takes note of
// what events stand for now.
func (c *Context) prepare(work gpu.Work) (item, error) {
	it := item{work: work}
	if err := c.checks.Work(work); err != nil {
		return it, err
	}
	switch work := work.(type) {
	case gpu.Record:
		m, err := c.newMark(work.Event)
		it.mark = m
		return it, err
	case gpu.Await:
		e, err := ours(work.Event, "wait for event")
		if err == nil {
			it.mark = e.mark()
		}
		return it, err
	}
	return it, nil
}

// checks are those of work for a context.
func checks(launch func(gpu.Launch) error) gpu.Checks {
	return gpu.Checks{Launch: launch, Event: func(event gpu.Event, op string) error {
		_, err := ours(event, op)
		return err
	}}
}

// issue gives an item to the driver. mu is held. Refused work is left out, and what comes behind it
// goes on; but where that was to wait for something, or others wait for it, it would go on too
// early or they would wait for ever, so that the context ends instead.
func (s *Stream) issue(it item) error {
	err := s.give(it)
	if err != nil && orders(it.work) {
		s.context.poison(err)
	}
	return err
}

// orders reports whether other work relies on this to know when it may be done.
func orders(work gpu.Work) bool {
	switch work.(type) {
	case gpu.Record, gpu.Await, gpu.MemoryOps:
		return true
	}
	return false
}

func (s *Stream) give(it item) error {
	c := s.context
	switch work := it.work.(type) {
	case gpu.Tell:
		return s.tell(work.Func, it.own)
	case gpu.Record:
		return c.noted("record event", it.mark.record(s))
	}
	s.endsWith(nil)
	if it.graph != nil {
		return it.graph.launch(s)
	}
	switch work := it.work.(type) {
	case gpu.Launch:
		return s.launch(work)
	case gpu.Copy:
		return c.noted("copy", s.copyOnDevices(work))
	case gpu.Fill:
		return c.noted("fill", s.fill(work))
	case gpu.MemoryOps:
		return c.noted("write or wait for words", s.words(work))
	case gpu.Await:
		return s.await(it.mark)
	}
	return nil
}

func (s *Stream) await(m *mark) error {
	if m == nil {
		return nil
	}
	native, _ := m.known()
	if native == 0 {
		return nil
	}
	return s.context.noted("wait for event", s.context.driver.StreamWaitEvent(s.context.native, s.native, native, 0))
}

func (s *Stream) launch(w gpu.Launch) error {
	c, f := s.context, w.Function.(*Function) // as checkLaunch found it
	c.launches.Add(1)
	c.recent.note(&f.info.Name)
	params := w.Params[:f.info.ParamBytes]
	return c.noted("launch "+f.info.Name, c.driver.Launch(c.native, f.native, shapeOf(&w), params, s.native))
}

// shapeOf is what the driver is told of a launch, or of a node that launches.
func shapeOf(w *gpu.Launch) cudadrv.Shape {
	shape := cudadrv.Shape{Grid: w.Grid, Block: w.Block, SharedBytes: w.SharedBytes, Attributes: w.Attributes}
	if w.Cooperative {
		shape.Attributes = append(slices.Clip(shape.Attributes), abi.LaunchAttribute{
			ID: abi.LaunchCooperative, Value: [abi.LaunchValueBytes]byte{1},
		})
	}
	return shape
}

func (s *Stream) words(w gpu.MemoryOps) error {
	d, ctx := s.context.driver, s.context.native
	for _, op := range w.Ops {
		var err error
		switch {
		case op.Wait && op.Bytes == 4:
			err = d.StreamWaitValue32(ctx, s.native, op.Address, uint32(op.Value), uint32(op.Until))
		case op.Wait:
			err = d.StreamWaitValue64(ctx, s.native, op.Address, op.Value, uint32(op.Until))
		case op.Bytes == 4:
			err = d.StreamWriteValue32(ctx, s.native, op.Address, uint32(op.Value), 0)
		default:
			err = d.StreamWriteValue64(ctx, s.native, op.Address, op.Value, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) fill(w gpu.Fill) error {
	if w.Columns == 0 || w.Rows == 0 {
		return nil
	}
	if c := s.context.beyond(w.Address); c != nil {
		return s.visit(c, func(stream cudadrv.Stream) error { return c.fill(w, stream) })
	}
	return s.context.fill(w, s.native)
}

// fill gives a fill of something to the driver.
func (c *Context) fill(w gpu.Fill, stream cudadrv.Stream) error {
	size := uint64(w.PatternBytes)
	if w.Rows > 1 && w.RowPitch == w.Columns*size {
		w.Columns, w.Rows = w.Columns*w.Rows, 1
	}
	d, ctx := c.driver, c.native
	switch {
	case w.Rows == 1 && size == 1:
		return d.MemsetD8Async(ctx, w.Address, uint8(w.Pattern), w.Columns, stream)
	case w.Rows == 1 && size == 2:
		return d.MemsetD16Async(ctx, w.Address, uint16(w.Pattern), w.Columns, stream)
	case w.Rows == 1:
		return d.MemsetD32Async(ctx, w.Address, w.Pattern, w.Columns, stream)
	case size == 1:
		return d.MemsetD2D8Async(ctx, w.Address, w.RowPitch, uint8(w.Pattern), w.Columns, w.Rows, stream)
	case size == 2:
		return d.MemsetD2D16Async(ctx, w.Address, w.RowPitch, uint16(w.Pattern), w.Columns, w.Rows, stream)
	}
	return d.MemsetD2D32Async(ctx, w.Address, w.RowPitch, w.Pattern, w.Columns, w.Rows, stream)
}

// checkLaunch refuses what the driver refuses at the call: in a lane it would be too late.
func (c *Context) checkLaunch(w gpu.Launch) error {
	f, known := w.Function.(*Function)
	if !known || f.module.context != c || f.module.closed.Load() {
		return &gpu.Error{Op: "launch", Code: abi.InvalidHandle, Detail: "no function of a loaded module of this context"}
	}
	limit := c.backend.infos[c.device.ordinal].Attributes
	three := func(x, y, z abi.DeviceAttribute) [3]uint32 {
		return [3]uint32{uint32(limit[x]), uint32(limit[y]), uint32(limit[z])}
	}
	return w.Check(gpu.LaunchLimits{
		Kernel: f.info.Name, Grid: three(abi.AttrMaxGridDimX, abi.AttrMaxGridDimY, abi.AttrMaxGridDimZ),
		Block:         three(abi.AttrMaxBlockDimX, abi.AttrMaxBlockDimY, abi.AttrMaxBlockDimZ),
		DeviceThreads: uint32(limit[abi.AttrMaxThreadsPerBlock]), KernelThreads: f.maxThreads.Load(),
		DynamicSharedBytes: f.maxDynamic.Load(), ParamBytes: f.info.ParamBytes, Clusters: limit[abi.AttrClusterLaunch] != 0,
		Resident: func(threads int, shared uint64) (uint64, error) {
			fit, err := f.ActiveBlocks(threads, shared)
			return uint64(fit) * uint64(limit[abi.AttrMultiprocessorCount]), err
		},
	})
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

// copyPeers copies between devices. The driver finds a way, whether they are allowed to reach each
// other or not; without being told the contexts it would take the memory for its stream's own
// device's.
func (s *Stream) copyPeers(dst, src gpu.Place, width, rows uint64) error {
	c := s.context
	end := func(p gpu.Place) cudadrv.Context {
		if m := peer(p); m != nil {
			return m.context.native
		}
		return c.native
	}
	if rows == 1 {
		return c.driver.MemcpyPeerAsync(c.native, dst.Address, end(dst), src.Address, end(src), width, s.native)
	}
	return c.driver.CopyPeers(c.native, plane(dst, src, width, rows), end(dst), end(src), s.native)
}

// ActiveClusters is how many clusters of the launch's size fit the device at once.
func (f *Function) ActiveClusters(launch gpu.Launch) (int, error) {
	c := f.module.context
	n, err := c.driver.ActiveClusters(c.native, f.native, shapeOf(&launch))
	return int(n), c.noted("occupancy by clusters", err)
}

// LargestCluster is how many blocks of the launch's shape a cluster can have.
func (f *Function) LargestCluster(launch gpu.Launch) (int, error) {
	c := f.module.context
	n, err := c.driver.LargestCluster(c.native, f.native, shapeOf(&launch))
	return int(n), c.noted("size of clusters", err)
}
