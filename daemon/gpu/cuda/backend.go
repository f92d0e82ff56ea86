package cuda

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda/devicelist"
	"github.com/phos-gpu/phos/daemon/gpu/cuda/devprintf"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Options configure a backend.
type Options struct {
	// Library is the path of the driver; empty for the default one.
	Library string
	// Ledger accounts for memory shared with other processes, in the row of Slot; nil disables
	// accounting.
	Ledger *ledger.Ledger
	Slot   int
	// Logger gets a line for each fault; nil means slog.Default.
	Logger *slog.Logger
}

// Backend is the GPUs of a driver.
type Backend struct {
	driver  *cudadrv.Driver
	options Options
	infos   []gpu.DeviceInfo
	devices []*device
	// driverLost is set when a fault has made the driver unusable in this process.
	driverLost atomic.Bool
	aliases    aliases
	pinned     pins
	// registering is held while host memory is registered with the driver or unregistered, for all
	// devices. It is locked before a device's mu.
	registering sync.Mutex

	ledgerMu         sync.Mutex
	notedReclaimable bool // last value of Ledger.SetUnreclaimed; guarded by ledgerMu

	mu       sync.Mutex
	contexts map[*Context]struct{}
	closed   bool
}

// The optional interfaces of package gpu are found by type assertions at run time, so check here
// that they are implemented.
var (
	_ gpu.ContextPreparer = (*Backend)(nil)
	_ interface {
		gpu.ReclaimableMemory
		gpu.Aliaser
		gpu.Sharer
		gpu.Digester
		gpu.Shadower
		gpu.Pinner
	} = (*Memory)(nil)
	_ interface {
		gpu.Resumable
		gpu.Peering
		gpu.Placer
		gpu.Limiter
		gpu.TensorMapper
	} = (*Context)(nil)
	_ gpu.Stager          = (*Stream)(nil)
	_ gpu.ClusterFunction = (*Function)(nil)
)

// Open opens the driver and reserves a window of addresses on each device.
func Open(options Options) (*Backend, error) {
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	cudadrv.Observe(func(call string, code abi.Result) {
		options.Logger.Debug("driver refused a call", "call", call, "code", code.String())
	})
	driver, err := cudadrv.Open(options.Library)
	if err != nil {
		return nil, err
	}
	if err := devprintf.Capture(); err != nil {
		return nil, fmt.Errorf("redirect standard output for device printf: %w", err)
	}
	b := &Backend{driver: driver, options: options, contexts: map[*Context]struct{}{}}
	if b.infos, err = devicelist.List(driver); err != nil {
		return nil, err
	}
	if l := options.Ledger; l != nil && l.GPUs() < len(b.infos) {
		return nil, fmt.Errorf("ledger has %d GPUs, driver has %d: %w", l.GPUs(), len(b.infos), abi.InvalidValue)
	}
	for ordinal := range b.infos {
		d, err := b.newDevice(int32(ordinal))
		if err != nil {
			_ = b.Close()
			return nil, fmt.Errorf("GPU %d: %w", ordinal, err)
		}
		b.infos[ordinal].Window = d.window
	}
	return b, nil
}

// TakeOutput makes standard output a pipe for device printf, once per process; os.Stdout then
// refers to the previous standard output. Open does this, too.
func TakeOutput() error { return devprintf.Capture() }

// Devices lists the devices.
func (b *Backend) Devices() []gpu.DeviceInfo { return b.infos }

// NewContext creates a context on a device.
func (b *Backend) NewContext(ordinal int, options gpu.ContextOptions) (gpu.Context, error) {
	if ordinal < 0 || ordinal >= len(b.devices) {
		return nil, gpu.Errorf("create context", abi.InvalidDevice, "no device %d", ordinal)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, &gpu.Error{Op: "create context", Code: abi.Deinitialized}
	}
	d := b.devices[ordinal]
	if options.Window == (gpu.Range{}) {
		options.Window = b.infos[ordinal].Window
	}
	if options.Window != d.window {
		if err := b.moveWindow(d, options.Window); err != nil {
			return nil, fmt.Errorf("create context: %w", err)
		}
	}
	c, err := newContext(b, d, options)
	if err != nil {
		return nil, err
	}
	b.contexts[c] = struct{}{}
	return c, nil
}

// Close closes all contexts and releases all addresses.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	open := slices.Collect(maps.Keys(b.contexts))
	b.mu.Unlock()
	var errs []error
	for _, c := range open {
		errs = append(errs, c.Close())
	}
	for _, d := range b.devices {
		if b.driverLost.Load() {
			break
		}
		if d.prepared != 0 {
			errs = append(errs, b.driver.End(d.prepared))
			d.prepared = 0
		}
		errs = append(errs, d.releaseWindow())
	}
	return errors.Join(errs...)
}

// removeContext removes a closed context.
func (b *Backend) removeContext(c *Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.contexts, c)
}

// inUse reports whether a device has a context. mu is held.
func (b *Backend) inUse(d *device) bool {
	for c := range b.contexts {
		if c.device == d {
			return true
		}
	}
	return false
}

// contextsOf returns the contexts of a device.
func (b *Backend) contextsOf(d *device) (contexts []*Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.contexts {
		if c.device == d {
			contexts = append(contexts, c)
		}
	}
	return contexts
}
