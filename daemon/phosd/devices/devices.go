package devices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/phosd/metrics"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const (
	// driverTimeout is how long a request waits for NVIDIA's driver, which may hang. Older data are
	// better than none.
	driverTimeout = time.Second
	// driverInterval is between two queries of the driver: a GPU may be lost without an event.
	driverInterval = 10 * time.Second
)

// Driver reports about real GPUs; inventory.Watch is one.
type Driver interface {
	// Inventory returns what the driver reports now, or its last report if the context ends first.
	Inventory(ctx context.Context) (*inventory.Inventory, error)
	Close() error
}

// Holder is a session as far as this package needs it.
type Holder struct {
	Session uint64
	// Slot is the session's slot in the ledger.
	Slot int
	// Owner is the user id of the program's owner.
	Owner     uint32
	Program   proc.Identity
	WorkerPID int
}

// Sessions is what this package needs of package sessions, which implements it.
type Sessions interface {
	// Holders lists all sessions.
	Holders() []Holder
	// Fail marks a session's program as failed. Only the first reason counts.
	Fail(session uint64, reason string)
}

// Options are what Devices are made of.
type Options struct {
	// Offer names the backend: "soft:1".
	Offer string
	// Inventory lists the GPUs of a backend.
	Inventory func(offer string) ([]gpu.DeviceInfo, error)
	// Driver connects to NVIDIA's driver and reports its events to a function. Nil, or a nil result:
	// the backend has no real GPUs.
	Driver  func(offer string, report func(inventory.Event)) Driver
	Metrics *metrics.Metrics
	Log     *slog.Logger
}

// Devices are the GPUs that phosd serves.
type Devices struct {
	gpus    []gpu.DeviceInfo
	ledger  *ledger.Ledger // nil before OpenLedger
	driver  Driver         // nil where there are no real GPUs
	health  inventory.Health
	metrics *metrics.Metrics
	log     *slog.Logger
	// sessions is nil before Attach.
	sessions Sessions
}

// Open lists the GPUs and connects to their driver.
func Open(options Options) (*Devices, error) {
	d := &Devices{metrics: options.Metrics, log: options.Log}
	var err error
	if d.gpus, err = options.Inventory(options.Offer); err != nil {
		return nil, fmt.Errorf("gpus %s: %w", options.Offer, err)
	}
	if len(d.gpus) == 0 || len(d.gpus) > ledger.MaxGPUs {
		return nil, fmt.Errorf("gpus %s: %d GPUs; 1 to %d can be served", options.Offer, len(d.gpus), ledger.MaxGPUs)
	}
	if options.Driver != nil {
		d.driver = options.Driver(options.Offer, d.noteEvent)
	}
	return d, nil
}

// Attach names the sessions whose programs use the GPUs. Call it once, before the driver is first
// queried.
func (d *Devices) Attach(sessions Sessions) { d.sessions = sessions }

// OpenLedger opens the memory accounting: the existing one where adopted sessions still account in
// it, or else a new one.
func (d *Devices) OpenLedger(path string, existing bool) (err error) {
	if !existing {
		capacities := make([]uint64, len(d.gpus))
		for i, gpu := range d.gpus {
			capacities[i] = gpu.MemoryBytes
		}
		d.ledger, err = ledger.Create(path, capacities)
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open ledger: %w", err)
	}
	if d.ledger, err = ledger.Open(file); err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// Ledger returns the memory accounting; it is open after OpenLedger.
func (d *Devices) Ledger() *ledger.Ledger { return d.ledger }

// GPUs lists the GPUs by their ordinals.
func (d *Devices) GPUs() []gpu.DeviceInfo { return d.gpus }

// Close disconnects from the driver and closes the ledger.
func (d *Devices) Close() error {
	var failures []error
	if d.driver != nil {
		failures = append(failures, d.driver.Close())
	}
	if d.ledger != nil {
		failures = append(failures, d.ledger.Close())
	}
	return errors.Join(failures...)
}

// Room returns how much memory of a GPU a restored program can have, and the GPU's memory.
// Processes that are not phos's may hold some of a real GPU's.
func (d *Devices) Room(ctx context.Context, gpu int) (free, capacity uint64) {
	free, capacity = d.ledger.Available(gpu)
	used, _ := d.ledger.Usage(gpu)
	reclaimable := free - min(free, capacity-used) // standby workers give it back when it is needed
	found, err := d.query(ctx)
	if err != nil {
		return free, capacity // the driver does not answer
	}
	if g := d.hardwareOf(gpu, found); g != nil && g.Memory != nil {
		free = min(free, g.Memory.FreeBytes+reclaimable)
	}
	return free, capacity
}

// query asks the driver; it returns nil where there are no real GPUs.
func (d *Devices) query(ctx context.Context) (*inventory.Inventory, error) {
	if d.driver == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	return d.driver.Inventory(ctx)
}

// hardwareOf finds a GPU in the driver's report; nil if the driver does not list it.
func (d *Devices) hardwareOf(gpu int, found *inventory.Inventory) *inventory.GPU {
	if found == nil {
		return nil
	}
	id := inventory.UUIDText(d.gpus[gpu].UUID)
	for i := range found.GPUs {
		if found.GPUs[i].UUID == id {
			return &found.GPUs[i]
		}
	}
	return nil
}

// Watch queries the driver until the context ends. The driver's events come only while it is
// queried.
func (d *Devices) Watch(ctx context.Context) {
	if d.driver == nil {
		return
	}
	tick := time.NewTicker(driverInterval)
	defer tick.Stop()
	for {
		found, _ := d.driver.Inventory(ctx) // an error is shown by --status
		for i := range d.gpus {
			if g := d.hardwareOf(i, found); g != nil {
				d.markLost(i, d.health.Lost(g))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// noteEvent records an event of the driver. It must not query the driver: the answer would come
// through the goroutine that reports the event.
func (d *Devices) noteEvent(e inventory.Event) {
	d.health.Note(e, time.Now())
	d.metrics.GPUFailed(e.BusID, e.Xid)
	d.log.Warn("GPU error reported by driver", "gpu", e.Index, "bus", e.BusID, "xid", e.Xid, "what", e.Text())
	for i, info := range d.gpus {
		if e.Is(&inventory.GPU{Index: i, UUID: inventory.UUIDText(info.UUID), BusID: busText(info.Attributes)}) &&
			e.Fatal() {
			d.markLost(i, e.Text())
		}
	}
}

// markLost fails the programs that hold memory of a GPU. An empty reason means that the GPU is not
// lost.
func (d *Devices) markLost(gpu int, reason string) {
	if reason == "" {
		return
	}
	info := d.gpus[gpu]
	why := fmt.Sprintf("GPU %d (%s, %s): %s", gpu, info.Name, busText(info.Attributes), reason)
	for _, h := range d.sessions.Holders() {
		if d.ledger.SlotUsage(gpu, h.Slot) > 0 {
			d.sessions.Fail(h.Session, why)
		}
	}
}

// busText formats a GPU's PCI bus address as the driver's tools do.
func busText(attributes map[abi.DeviceAttribute]int32) string {
	return fmt.Sprintf(
		"%08X:%02X:%02X.0",
		uint32(attributes[abi.AttrPCIDomainID]),
		uint32(attributes[abi.AttrPCIBusID]),
		uint32(attributes[abi.AttrPCIDeviceID]),
	)
}
