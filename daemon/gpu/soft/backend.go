package soft

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Options connect a backend to its surroundings. The zero value is a stand-alone backend.
type Options struct {
	// Ledger accounts for memory that several processes share, in the row of Slot. nil means that no
	// other process uses the devices.
	Ledger *ledger.Ledger
	Slot   int
	// Logger receives a line for each fault; nil means slog.Default.
	Logger *slog.Logger
}

// Backend is a set of software GPUs.
type Backend struct {
	spec    model.Spec
	infos   []gpu.DeviceInfo
	engine  *simt.Engine
	logger  *slog.Logger
	account account
	devices []*device
	// kernels counts running launches.
	kernels atomic.Int32
	// shared is the queue of all streams in deterministic mode, and nil otherwise.
	shared *queue

	mu       sync.Mutex
	contexts map[*Context]struct{}
	closed   bool
}

// The optional interfaces of package gpu are found by type assertions at run time, so check here
// that they are implemented.
var (
	_ gpu.FaultContainer = (*Backend)(nil)
	_ interface {
		gpu.AccessRecorder
		gpu.Aliaser
		gpu.Digester
		gpu.LazyMapper
		gpu.Sharer
		gpu.Tracker
		gpu.Viewer
	} = (*Memory)(nil)
	_ interface {
		gpu.Resumable
		gpu.TensorMapper
	} = (*Context)(nil)
	_ gpu.ClusterFunction = (*Function)(nil)
)

// Open opens a backend with the devices of a specification; see package model.
func Open(text string, options Options) (*Backend, error) {
	spec, err := model.Parse(text)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		spec:  spec,
		infos: spec.Devices(),
		engine: simt.NewEngine(simt.Options{
			Cores: spec.Cores, Multiprocessors: spec.Multiprocessors(), Deterministic: spec.Deterministic,
		}),
		logger:   options.Logger,
		account:  &privateAccount{capacity: spec.MemoryBytes, used: make([]uint64, spec.Count)},
		contexts: map[*Context]struct{}{},
	}
	if b.logger == nil {
		b.logger = slog.Default()
	}
	if l := options.Ledger; l != nil {
		if l.GPUs() < spec.Count {
			return nil, fmt.Errorf("open %s: ledger has %d gpus: %w", text, l.GPUs(), abi.InvalidValue)
		}
		b.account = &sharedAccount{l, options.Slot}
	}
	for ordinal := range spec.Count {
		b.devices = append(b.devices, newDevice(ordinal, b.account))
	}
	if spec.Deterministic {
		b.shared = newQueue()
		b.shared.parked = &parked{}
	}
	return b, nil
}

// ContainsFaults marks Backend as a gpu.FaultContainer.
func (b *Backend) ContainsFaults() {}

// Devices lists the devices.
func (b *Backend) Devices() []gpu.DeviceInfo { return b.infos }

// Serial reports whether the work of all streams runs in submission order, as in deterministic
// mode. Only work that waits for later work is overtaken.
func (b *Backend) Serial() bool { return b.spec.Deterministic }

// NewContext creates a context on a device.
func (b *Backend) NewContext(ordinal int, options gpu.ContextOptions) (gpu.Context, error) {
	if ordinal < 0 || ordinal >= len(b.devices) {
		return nil, &gpu.Error{Op: "create context", Code: abi.InvalidDevice, Detail: fmt.Sprintf("no device %d", ordinal)}
	}
	if options.Window == (gpu.Range{}) {
		options.Window = gpu.WindowOf(b.infos, ordinal)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, &gpu.Error{Op: "create context", Code: abi.Deinitialized}
	}
	if err := b.reserveWindow(b.devices[ordinal], options.Window); err != nil {
		return nil, fmt.Errorf("create context: %w", err)
	}
	c := newContext(b, b.devices[ordinal], options)
	b.contexts[c] = struct{}{}
	return c, nil
}

// reserveWindow reserves a device's address window for its first context and makes the devices
// peers of each other. b.mu is held.
func (b *Backend) reserveWindow(d *device, window gpu.Range) error {
	if d.space != nil {
		if d.space.Window() != window {
			return fmt.Errorf("device %d has another address window already: %w", d.ordinal, abi.InvalidValue)
		}
		return nil
	}
	memory, err := space.New(window)
	if err != nil {
		return err
	}
	if b.spec.Untracked {
		memory.DisableTracking()
	}
	for _, other := range b.devices {
		if other.space != nil {
			other.space.AddPeer(memory)
			memory.AddPeer(other.space)
		}
	}
	d.space = memory
	return nil
}

// Close closes all contexts and releases all memory.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	var open []*Context
	for c := range b.contexts {
		open = append(open, c)
	}
	b.mu.Unlock()
	var errs []error
	for _, c := range open {
		errs = append(errs, c.Close())
	}
	if b.shared != nil {
		b.shared.stop()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.devices {
		if d.space != nil {
			errs = append(errs, d.space.Close())
			d.space = nil
		}
	}
	return errors.Join(errs...)
}

func (b *Backend) remove(c *Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.contexts, c)
}
