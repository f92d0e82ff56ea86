package cuda

import (
	"fmt"
	"os"
	"slices"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// create allocates device memory that can be exported to other processes. This costs nothing, and
// memory allocated without it can never be shared. If the driver cannot do that, create allocates
// memory without it. The device's mu is held.
func (d *device) create(bytes uint64) (cudadrv.Allocation, error) {
	allocation, err := d.driver.Create(bytes, d.ordinal, d.handleTypes)
	if code := gpu.Code(err); err == nil || d.handleTypes == cudadrv.HandleNone || code == abi.OutOfMemory ||
		code.Sticky() {
		return allocation, err
	}
	plain, failed := d.driver.Create(bytes, d.ordinal, cudadrv.HandleNone)
	if failed != nil {
		return plain, err
	}
	d.handleTypes, d.noHandles = cudadrv.HandleNone, err
	return plain, nil
}

// refuse returns the error for a range that cannot be shared or imported.
func (d *device) refuse(op string, code abi.Result, r gpu.Range, detail string) error {
	detail = fmt.Sprintf("%#x+%#x on GPU %d: %s", r.Address, r.Bytes, d.ordinal, detail)
	return &gpu.Error{Op: op, Code: code, Detail: detail}
}

// Share exports one mapping as a file descriptor of the driver, without copying.
func (m *Memory) Share(r gpu.Range) (*os.File, int64, error) {
	if err := m.checkRange("share memory", r); err != nil {
		return nil, 0, err
	}
	d := m.device
	refuse := func(code abi.Result, detail string) error { return d.refuse("share memory", code, r, detail) }
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.table.find(r.Address)
	switch {
	case p == nil || d.table.covered(r.Address, r.Bytes) < r.Bytes:
		return nil, 0, refuse(abi.NotMapped, "it is not fully mapped")
	case p.Range != r || !p.whole():
		return nil, 0, refuse(abi.NotSupported, "it is not exactly one mapping")
	case d.noHandles != nil:
		detail := fmt.Sprintf("the driver cannot allocate shareable memory there (%v)", d.noHandles)
		return nil, 0, refuse(abi.NotSupported, detail)
	case d.handleTypes == cudadrv.HandleNone:
		return nil, 0, refuse(abi.NotSupported, "the driver cannot share memory of this GPU with other processes")
	}
	file, err := d.driver.Export(p.mapping.allocation)
	if err != nil {
		return nil, 0, refuse(gpu.Code(err), "the driver cannot export it")
	}
	p.mapping.shared = true
	return file, 0, nil
}

// Import maps memory that another process has exported.
func (m *Memory) Import(r gpu.Range, file *os.File, offset int64) error {
	if err := m.checkRange("import memory", r); err != nil {
		return err
	}
	d := m.device
	refuse := func(code abi.Result, detail string) error { return d.refuse("import memory", code, r, detail) }
	if offset != 0 {
		return refuse(abi.InvalidValue, "the offset of shared memory must be 0")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.table.isFree(r) {
		return refuse(abi.AlreadyMapped, "the range is in use")
	}
	if len(d.mappings.overlapping(r)) > 0 {
		return fmt.Errorf("import memory: %w", gpu.ErrNotReclaimed)
	}
	allocation, err := d.driver.Import(file)
	if err != nil {
		return refuse(gpu.Code(err),
			"the driver cannot import it: the exporting process must use the same driver and the same whole GPU")
	}
	if err := d.mapFor(r, allocation, []int32{d.ordinal}); err != nil {
		if code := gpu.Code(err); !code.Sticky() {
			return refuse(code, "the driver cannot map it; if it is on another GPU, this one must be able to access that")
		}
		return m.context.driverErr("import memory", err)
	}
	for _, other := range d.accessors[1:] {
		// If the memory is on a third GPU, this device may be unable to access it; its kernels then
		// fault.
		_ = d.driver.Grant(r.Address, r.Bytes, other, cudadrv.AccessReadWrite)
	}
	g := &mapping{Range: r, allocation: allocation, foreign: true}
	d.addMapping(g)
	d.assign(r, g, m.context)
	return nil
}

// AllowPeer permits or forbids the context's kernels to access another device's memory. Memory
// mapped by this package has rights per device. For module variables, which the driver placed, peer
// access between the contexts is enabled.
func (c *Context) AllowPeer(ordinal int, allow bool) error {
	const op = "allow peer access"
	if ordinal < 0 || ordinal >= len(c.backend.devices) || ordinal == int(c.device.ordinal) {
		return &gpu.Error{Op: op, Code: abi.InvalidDevice}
	}
	if c.backend.infos[c.device.ordinal].Attributes[abi.AttrPeers]>>ordinal&1 == 0 {
		return &gpu.Error{Op: op, Code: abi.PeerAccessUnsupported}
	}
	peer := c.backend.devices[ordinal]
	if err := peer.setAccess(c.device.ordinal, allow); err != nil {
		return c.driverErr(op, err)
	}
	err := c.setPeerAccess(peer, allow)
	if err != nil && allow {
		_ = peer.setAccess(c.device.ordinal, false) // the first error is more useful
	}
	return c.driverErr(op, err)
}

// setAccess grants another device access to all present and future memory of this one, or revokes
// it.
func (d *device) setAccess(other int32, allow bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	access, before := cudadrv.AccessNone, cudadrv.AccessReadWrite
	if allow {
		access, before = before, access
	}
	for i, g := range d.mappings.all {
		err := d.driver.Grant(g.Address, g.Bytes, other, access)
		if err != nil && !g.foreign { // imported memory may be on a third device
			for _, g := range d.mappings.all[:i] {
				_ = d.driver.Grant(g.Address, g.Bytes, other, before)
			}
			return err
		}
	}
	d.accessors = slices.DeleteFunc(d.accessors, func(reached int32) bool { return reached == other })
	if allow {
		d.accessors = append(d.accessors, other)
	}
	return nil
}

// setPeerAccess enables or disables the driver's peer access to all contexts of another device.
func (c *Context) setPeerAccess(peer *device, allow bool) error {
	for _, other := range c.backend.contextsOf(peer) {
		var err error
		if allow {
			err = c.driver.CtxEnablePeerAccess(c.native, other.native, 0)
		} else {
			err = c.driver.CtxDisablePeerAccess(c.native, other.native)
		}
		switch gpu.Code(err) {
		case abi.Success, abi.PeerAccessAlreadyEnabled, abi.PeerAccessNotEnabled:
		default:
			return err
		}
	}
	return nil
}

// remoteContext returns a context of the device that has the memory at an address, if this
// context's device cannot access that memory; otherwise nil.
func (c *Context) remoteContext(address uint64) *Context {
	if len(c.backend.devices) == 1 || c.device.hasMapped(address) {
		return nil
	}
	for _, d := range c.backend.devices {
		if d == c.device || d.allows(c.device.ordinal) || !d.inWindow(address) {
			continue
		}
		if contexts := c.backend.contextsOf(d); len(contexts) > 0 {
			return contexts[0]
		}
	}
	return nil
}

// inWindow reports whether an address is in the device's window.
func (d *device) inWindow(address uint64) bool {
	return d.window.Contains(gpu.Range{Address: address, Bytes: 1})
}

// hasMapped reports whether an address is in the device's window or mapped for it.
func (d *device) hasMapped(address uint64) bool {
	if d.inWindow(address) {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.table.find(address) != nil
}

// allows reports whether another device may access the memory of this one.
func (d *device) allows(other int32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.accessors, other)
}

// runInContext runs work in another device's context, in this stream's order. The driver does the
// same for memory that it has placed.
func (s *Stream) runInContext(c *Context, work func(cudadrv.Stream) error) error {
	there, err := c.driver.StreamCreateWithPriority(c.native, cudadrv.StreamNonBlocking, 0)
	if err != nil {
		return err
	}
	// The driver destroys the stream once its work is done.
	defer func() { _ = c.driver.StreamDestroy(c.native, there) }()
	if err := s.context.orderAfter(s.native, c, there); err != nil {
		return err
	}
	if err := work(there); err != nil {
		return err
	}
	return c.orderAfter(there, s.context, s.native)
}

// orderAfter makes a stream of another context wait for the work now in one of this context's
// streams.
func (c *Context) orderAfter(stream cudadrv.Stream, other *Context, waits cudadrv.Stream) error {
	event, err := c.untimed.get()
	if err != nil {
		return err
	}
	defer c.untimed.put(event) // a wait is not affected by later recordings
	if err := c.driver.EventRecord(c.native, event, stream); err != nil {
		return err
	}
	return c.driver.StreamWaitEvent(other.native, waits, event, 0)
}
