package cuda

import (
	"slices"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// prepare checks work at submission, where an error is still returned by the call, and resolves
// events to their current recordings.
func (c *Context) prepare(work gpu.Work) (item, error) {
	it := item{work: work}
	if err := c.checks.Work(work); err != nil {
		return it, err
	}
	switch work := work.(type) {
	case gpu.Record:
		m, err := c.newRecord(work.Event)
		it.record = m
		return it, err
	case gpu.Await:
		e, err := ownEvent(work.Event, "wait for event")
		if err == nil {
			it.record = e.acquire()
		}
		return it, err
	case gpu.Copy:
		it.work = c.hostOnly(work)
	}
	return it, nil
}

// issue gives an item to the driver. mu is held. Refused work is dropped and later work goes on.
// But if the work orders other work, the context is poisoned: otherwise later work would run too
// early, or a waiter would wait forever.
func (s *Stream) issue(it item) error {
	err := s.issueWork(it)
	if err != nil && ordersOthers(it.work) {
		s.context.poison(err)
	}
	return err
}

// ordersOthers reports whether other work relies on this work for ordering.
func ordersOthers(work gpu.Work) bool {
	switch work.(type) {
	case gpu.Record, gpu.Await, gpu.MemoryOps:
		return true
	}
	return false
}

// issueWork makes the driver calls of an item. mu is held.
func (s *Stream) issueWork(it item) error {
	c := s.context
	switch work := it.work.(type) {
	case gpu.Completion:
		return s.addCompletion(work.Func, it.own)
	case gpu.Record:
		return c.driverErr("record event", it.record.record(s))
	}
	s.setTail(nil)
	if it.graph != nil {
		return it.graph.launch(s)
	}
	switch work := it.work.(type) {
	case gpu.Launch:
		return s.launch(work)
	case gpu.Copy:
		return c.driverErr("copy", s.copyOnDevices(work))
	case gpu.Fill:
		return c.driverErr("fill", s.fill(work))
	case gpu.MemoryOps:
		return c.driverErr("write or wait for words", s.memoryOps(work))
	case gpu.Await:
		return s.waitFor(it.record)
	}
	return nil
}

// waitFor makes the driver's stream wait for an event record.
func (s *Stream) waitFor(m *eventRecord) error {
	if m == nil {
		return nil
	}
	native, _ := m.state()
	if native == 0 {
		return nil
	}
	return s.context.driverErr("wait for event", s.context.driver.StreamWaitEvent(s.context.native, s.native, native, 0))
}

// launch launches a kernel.
func (s *Stream) launch(w gpu.Launch) error {
	c, f := s.context, w.Function.(*Function) // as checkLaunch found it
	c.launches.Add(1)
	c.recent.add(&f.info.Name)
	c.noteHeap(f)
	params := w.Params[:f.info.ParamBytes]
	return c.driverErr("launch "+f.info.Name, c.driver.Launch(c.native, f.native, launchShape(&w), params, s.native))
}

// launchShape returns the launch configuration as the driver takes it.
func launchShape(w *gpu.Launch) cudadrv.Shape {
	shape := cudadrv.Shape{Grid: w.Grid, Block: w.Block, SharedBytes: w.SharedBytes, Attributes: w.Attributes}
	if w.Cooperative {
		shape.Attributes = append(slices.Clip(shape.Attributes), abi.LaunchAttribute{
			ID: abi.LaunchCooperative, Value: [abi.LaunchValueBytes]byte{1},
		})
	}
	return shape
}

// memoryOps writes or waits for words of memory.
func (s *Stream) memoryOps(w gpu.MemoryOps) error {
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

// fill issues a fill, in another device's context if this one cannot access the memory.
func (s *Stream) fill(w gpu.Fill) error {
	if w.Columns == 0 || w.Rows == 0 {
		return nil
	}
	if c := s.context.remoteContext(w.Address); c != nil {
		return s.runInContext(c, func(stream cudadrv.Stream) error { return c.fill(w, stream) })
	}
	return s.context.fill(w, s.native)
}

// fill issues a fill that is not empty.
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

// checkLaunch refuses what the driver would refuse: in the host queue the error would come too
// late.
func (c *Context) checkLaunch(w gpu.Launch) error {
	f, ok := w.Function.(*Function)
	if !ok || f.module.context != c || f.module.closed.Load() {
		return &gpu.Error{Op: "launch", Code: abi.InvalidHandle, Detail: "not a function of a loaded module of this context"}
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

// peerMemory returns the other device's memory, if the place is in one.
func peerMemory(p gpu.Place) *Memory {
	m, _ := p.Host.(*Memory)
	return m
}

// onDevices reports whether neither end of a copy is the program's own memory.
func onDevices(w gpu.Copy) bool {
	return (w.Dst.Host == nil || peerMemory(w.Dst) != nil) && (w.Src.Host == nil || peerMemory(w.Src) != nil)
}

// copyOnDevices issues a copy that needs no bounce buffer.
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

// plane returns a box of one slice.
func plane(dst, src gpu.Place, width, rows uint64) cudadrv.Box {
	return cudadrv.Box{
		Dst: dst.Address, Src: src.Address, Extent: [3]uint64{width, rows, 1},
		DstPitch: dst.RowPitch, SrcPitch: src.RowPitch, DstHeight: rows, SrcHeight: rows,
	}
}

// copyPeers copies between devices, whether or not they can access each other. The driver must be
// told both contexts; otherwise it takes the addresses for the stream's own device.
func (s *Stream) copyPeers(dst, src gpu.Place, width, rows uint64) error {
	c := s.context
	end := func(p gpu.Place) cudadrv.Context {
		if m := peerMemory(p); m != nil {
			return m.context.native
		}
		return c.native
	}
	if rows == 1 {
		return c.driver.MemcpyPeerAsync(c.native, dst.Address, end(dst), src.Address, end(src), width, s.native)
	}
	return c.driver.CopyPeers(c.native, plane(dst, src, width, rows), end(dst), end(src), s.native)
}

// ActiveClusters returns how many clusters of the launch's size fit on the device at once.
func (f *Function) ActiveClusters(launch gpu.Launch) (int, error) {
	c := f.module.context
	n, err := c.driver.ActiveClusters(c.native, f.native, launchShape(&launch))
	return int(n), c.driverErr("occupancy by clusters", err)
}

// LargestCluster returns the maximum number of blocks in a cluster for the launch's shape.
func (f *Function) LargestCluster(launch gpu.Launch) (int, error) {
	c := f.module.context
	n, err := c.driver.LargestCluster(c.native, f.native, launchShape(&launch))
	return int(n), c.driverErr("size of clusters", err)
}
