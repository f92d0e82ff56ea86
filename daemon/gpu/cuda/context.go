package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda/devprintf"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Context is a context of the driver.
type Context struct {
	backend *Backend
	driver  *cudadrv.Driver
	device  *device
	native  cudadrv.Context
	memory  *Memory
	// side is a stream of this package, for work that does not wait for the session's streams.
	side   cudadrv.Stream
	output func([]byte)
	// listener receives device printf for output; nil without output.
	listener  *devprintf.Listener
	onRefused func(error)
	// heapUser is the first kernel that ran of those whose code calls malloc; nil for none.
	heapUser atomic.Pointer[string]
	// canPrint is set once a module was loaded whose kernels can print.
	canPrint atomic.Bool
	fault    atomic.Pointer[error]
	// stop is closed when the context is poisoned or closed. From then on nothing waits for the
	// driver.
	stop     chan struct{}
	stopOnce sync.Once
	launches atomic.Uint64
	checks   gpu.Checks
	recent   recent
	clock    clock

	// Pools of driver objects. The driver destroys them with the context.
	timed, untimed  pool[cudadrv.Event]
	sideStreams     pool[cudadrv.Stream]
	buffers, stages pool[[]byte] // of bufferBytes and stageBytes

	mu      sync.Mutex
	streams map[*Stream]struct{} // open, or closed but not idle yet
	closed  bool
}

// newContext creates a context of the driver, or takes the one created in advance.
func newContext(b *Backend, d *device, options gpu.ContextOptions) (*Context, error) {
	c := &Context{
		backend: b, driver: b.driver, device: d, output: options.Output, onRefused: options.OnRefused,
		stop: make(chan struct{}), streams: map[*Stream]struct{}{},
	}
	c.preparePools()
	c.launches.Store(options.Resumed.Launches)
	c.memory, c.checks = newMemory(c, d), gpu.NewChecks(c.checkLaunch, ownEvent)
	var err error
	if c.native, err = b.takeContext(d); err != nil {
		return nil, d.createErr(err)
	}
	if c.side, err = b.driver.StreamCreateWithPriority(c.native, cudadrv.StreamNonBlocking, 0); err == nil {
		err = c.clock.start(c, options.Resumed.Clock)
	}
	if err != nil {
		_ = b.driver.End(c.native)
		return nil, fmt.Errorf("create context on GPU %d: %w", d.ordinal, err)
	}
	if err := c.memory.changes.loadKernel(); err != nil {
		b.options.Logger.Warn("cannot load digest kernel; checkpoints cannot find changes", "gpu", d.ordinal, "error", err)
	}
	if c.output != nil {
		c.listener = devprintf.Listen(c.output)
	}
	return c, nil
}

// pool holds unused driver objects of one kind.
type pool[T any] struct {
	create func() (T, error)

	mu   sync.Mutex
	free []T
}

// get returns an unused object, or creates one.
func (p *pool[T]) get() (T, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		one := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return one, nil
	}
	p.mu.Unlock()
	return p.create()
}

func (p *pool[T]) put(one T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, one)
}

// preparePools sets how each pool creates objects.
func (c *Context) preparePools() {
	pinned := func(bytes int) func() ([]byte, error) {
		return func() ([]byte, error) { return c.driver.HostAlloc(c.native, bytes) }
	}
	c.buffers.create, c.stages.create = pinned(bufferBytes), pinned(stageBytes)
	c.timed.create = func() (cudadrv.Event, error) { return c.newEvent(true) }
	c.untimed.create = func() (cudadrv.Event, error) { return c.newEvent(false) }
	c.sideStreams.create = func() (cudadrv.Stream, error) {
		return c.driver.StreamCreateWithPriority(c.native, cudadrv.StreamNonBlocking, 0)
	}
}

// contextBytes is an estimate of a context's memory on a GPU. The difference in free memory would
// also show what other processes do.
const contextBytes = 512 << 20

// PrepareContext creates the context that the next NewContext on a device takes. It does not depend
// on that call's options.
func (b *Backend) PrepareContext(ordinal int) (bytes uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.devices[ordinal]
	if d.prepared == 0 {
		d.prepared, err = b.driver.CtxCreate(0, d.ordinal)
	}
	if err != nil {
		return 0, d.createErr(err)
	}
	return contextBytes, nil
}

// takeContext returns the context created in advance, or a new one. mu is held.
func (b *Backend) takeContext(d *device) (made cudadrv.Context, err error) {
	if made, d.prepared = d.prepared, 0; made != 0 {
		return made, nil
	}
	return b.driver.CtxCreate(0, d.ordinal)
}

// createErr returns the error of a context that cannot be created, with advice if there is some.
func (d *device) createErr(err error) error {
	code := gpu.Code(err)
	return &gpu.Error{Op: fmt.Sprintf("create context on GPU %d", d.ordinal), Code: code, Detail: hints[code]}
}

// hints is advice for some driver errors.
var hints = map[abi.Result]string{
	abi.DeviceUnavailable: "another process uses the GPU exclusively, or its compute mode forbids access",
	abi.ECCUncorrectable:  "the GPU's memory has an uncorrectable error; it needs a reset",
	abi.OutOfMemory:       "a context needs some hundred MiB, and the GPU has less free memory",
}

// PlacesVariables marks the context as a gpu.Placer.
func (c *Context) PlacesVariables() {}

// Memory returns the device's memory.
func (c *Context) Memory() gpu.Memory { return c.memory }

// recent holds the names of the last launched kernels.
type recent struct {
	next  atomic.Uint32
	names [8]atomic.Pointer[string]
}

func (r *recent) add(name *string) {
	r.names[r.next.Add(1)%uint32(len(r.names))].Store(name)
}

// list returns each name once, latest first.
func (r *recent) list() []string {
	var names []string
	at := r.next.Load()
	for i := range uint32(len(r.names)) {
		name := r.names[(at-i)%uint32(len(r.names))].Load()
		if name != nil && !slices.Contains(names, *name) {
			names = append(names, *name)
		}
	}
	return names
}

// driverErr converts an error of the driver, and makes it the context's fault if it is sticky. It
// returns nil for nil.
func (c *Context) driverErr(op string, err error) error {
	if err == nil {
		return nil
	}
	code := gpu.Code(err)
	if !code.Sticky() {
		return &gpu.Error{Op: op, Code: code}
	}
	detail := fmt.Sprintf("on GPU %d, %s", c.device.ordinal, c.backend.infos[c.device.ordinal].Name)
	if names := c.recent.list(); len(names) > 0 {
		detail += "; last kernels: " + strings.Join(names, ", ")
	}
	c.poison(&gpu.Error{Op: op, Code: code, Detail: detail})
	return c.Fault()
}

// failLater handles an error of work that was already accepted. The driver goes on after an error
// that is not sticky, so the program is only notified.
func (c *Context) failLater(err error) {
	switch {
	case err == nil || c.stopping():
	case c.onRefused == nil || gpu.Code(err).Sticky():
		c.poison(err)
	default:
		c.onRefused(err)
	}
}

// poison makes err the context's fault if it is the first, and wakes all waiters.
func (c *Context) poison(err error) {
	if c.stopping() && c.fault.Load() == nil {
		return // errors of work cut off by Close are not faults
	}
	if !c.fault.CompareAndSwap(nil, &err) {
		return
	}
	c.backend.driverLost.Store(true)
	c.backend.options.Logger.Error("fault on GPU",
		"device", c.device.ordinal, "code", gpu.Code(err).String(), "error", err)
	c.halt()
}

// halt closes stop, once.
func (c *Context) halt() { c.stopOnce.Do(func() { close(c.stop) }) }

// stopping reports whether queued work must be skipped.
func (c *Context) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// Fault returns the sticky error.
func (c *Context) Fault() error {
	if err := c.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// usable returns an error if the context is poisoned or closed.
func (c *Context) usable(op string) error {
	if err := c.Fault(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return &gpu.Error{Op: op, Code: abi.ContextIsDestroyed}
	}
	return nil
}

// ended reports whether the context was closed without a fault.
func (c *Context) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed && c.Fault() == nil
}

// Synchronize waits for all streams.
func (c *Context) Synchronize() error {
	for _, s := range c.openStreams() {
		_ = s.Synchronize()
	}
	return c.Fault()
}

// openStreams returns the streams that are not destroyed yet.
func (c *Context) openStreams() []*Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.streams))
}

// closeTimeout is how long Close waits for the driver, which may wait for a kernel. After that,
// only the end of the process frees the GPU.
const closeTimeout = 5 * time.Second

// ErrStuck is returned when a kernel does not end and the driver cannot stop it.
var ErrStuck = errors.New("a kernel is still running; it ends with the process")

// Close skips queued work and releases everything. It waits for queued Calls of the session, which
// still run.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.halt()
	streams := c.openStreams()
	lost := c.backend.driverLost.Load()
	busy := lost
	for _, s := range streams {
		s.shutdown()
		busy = busy || c.driver.StreamQuery(c.native, s.native) != nil
	}
	defer c.backend.removeContext(c)
	defer c.listener.Close()
	var errs []error
	if !busy {
		errs = append(errs, c.memory.unmapAllHost(), c.memory.releaseAll())
	}
	ended := make(chan error, 1)
	go func() { ended <- c.driver.End(c.native) }()
	select {
	case err := <-ended:
		if !lost {
			errs = append(errs, err)
		}
	case <-time.After(closeTimeout):
		c.backend.driverLost.Store(true)
		return errors.Join(append(errs, ErrStuck)...)
	}
	if busy {
		_ = c.memory.unmapAllHost() // only the books: the driver has freed it, or never will
		_ = c.memory.releaseAll()
	}
	if !lost {
		c.backend.registerAgain(c)
	}
	return errors.Join(errs...)
}

// flush waits until all device printf so far was delivered.
func (c *Context) flush() {
	if c.canPrint.Load() && c.output != nil {
		cudadrv.Flush()
		devprintf.Flush()
	}
}

// EncodeTensorMap encodes a tensor map.
func (c *Context) EncodeTensorMap(tensor *abi.TensorMap) ([abi.EncodedTensorMapBytes]byte, error) {
	encoded, err := c.driver.TensorMap(c.native, tensor)
	return encoded, c.driverErr("encode tensor map", err)
}

// ReplaceAddress returns an encoded tensor map for another address.
func (c *Context) ReplaceAddress(
	encoded [abi.EncodedTensorMapBytes]byte,
	address uint64,
) ([abi.EncodedTensorMapBytes]byte, error) {
	err := c.driver.TensorMapReplace(c.native, &encoded, address)
	return encoded, c.driverErr("replace address of tensor map", err)
}

// SetLimit sets a limit for kernels.
func (c *Context) SetLimit(limit int32, value uint64) error {
	return c.driverErr("set limit", c.driver.CtxSetLimit(c.native, limit, value))
}

// noteHeap notes that a kernel runs whose code may take memory from the driver's heap.
func (c *Context) noteHeap(f *Function) {
	if f.module.allocates && c.heapUser.Load() == nil {
		c.heapUser.CompareAndSwap(nil, &f.info.Name)
	}
}

// Unsavable returns an error text if kernels may have taken memory by malloc. That heap is the
// driver's, which neither lists nor gives out what is in it.
func (c *Context) Unsavable() string {
	name := c.heapUser.Load()
	if name == nil {
		return ""
	}
	return fmt.Sprintf("kernel %s has run, whose code takes memory by malloc (or new) on the GPU: the driver keeps "+
		"this heap, "+
		"and what is in it cannot be saved; allocate the memory before the launch instead", *name)
}
