package ckpt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
)

// device is a Device and its state.
type device struct {
	Device
	number int
	begun  bool
	// closed is set while the device's gate is closed.
	closed bool
	// pack is the file that the device writes; it is set by Begin.
	pack *os.File
}

// abortDevice aborts a device and drops its pack. The device may begin again.
func (v *checkpoint) abortDevice(d *device) {
	d.Abort()
	d.begun = false
	if d.pack == nil {
		return
	}
	if err := v.image.dropPack(d.pack); err != nil {
		v.steps.log.Error("cannot drop a pack", "pid", d.Process(), "error", err)
	}
	d.pack = nil
}

const (
	minRetryDelay = 5 * time.Millisecond
	minDrain = 100 * time.Millisecond
	maxRetryDelay  = 500 * time.Millisecond
	// dumpSecondBytes is a write speed that every disk reaches. CRIU's deadline grows by it.
	dumpSecondBytes = 16 << 20
	// minPrecopyBytes is the least memory for which a precopy pays: it stops each process once
	// more, for a moment.
	minPrecopyBytes = 64 << 20
)

// precopy copies GPU and CPU memory while the programs run.
func (v *checkpoint) precopy(ctx context.Context) error {
	work := []func(context.Context) error{func(ctx context.Context) error {
		return v.retryBusy(ctx, time.Now().Add(v.order.Deadline), v.beginDevices)
	}}
	for i := range v.work {
		work = append(work, func(ctx context.Context) error { return v.precopyTree(ctx, v.trees[i], v.work[i]) })
	}
	return parallel(ctx, work...)
}

// precopyTree copies the memory of processes before the pause, if that shortens the pause. A
// failure only makes the pause longer.
func (v *checkpoint) precopyTree(ctx context.Context, tree *Tree, work Work) error {
	if v.order.Options.StopTheWorld || residentBytes(tree) < minPrecopyBytes {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, v.dumpTime(tree))
	defer cancel()
	err := v.order.CPU.Precopy(limited, tree, work.Descriptor())
	if errors.Is(err, ErrUntracked) && v.order.Untracked != nil {
		v.order.Untracked()
	}
	if err == nil || errors.Is(err, ErrUntracked) {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	v.steps.log.Warn("precopy of process memory failed", "pid", tree.Processes[0].PID, "error", err)
	return emptyDirectory(work.Descriptor())
}

// beginDevices begins the devices of all processes that use a GPU now, except those already begun.
func (v *checkpoint) beginDevices(ctx context.Context) error {
	found, err := v.order.Devices(v.trees)
	if err != nil {
		return err
	}
	v.match(found)
	options := v.order.Options
	options.StopTheWorld = options.StopTheWorld || len(v.devices) == 0
	if len(v.devices) > 0 {
		options.BudgetBytes = v.share(len(v.devices))
		options.BandwidthBytes /= uint64(len(v.devices))
	}
	var work []func(context.Context) error
	for _, d := range v.devices {
		if d.begun {
			continue
		}
		mine := options
		mine.Progress = func(now Step) { v.progress.part(d.number, now) }
		work = append(work, func(ctx context.Context) error {
			packs, err := v.image.packs()
			if err != nil {
				return err
			}
			d.pack = packs[0]
			if err := d.Begin(ctx, packs, mine); err != nil {
				v.abortDevice(d)
				return withPID(d, err)
			}
			d.begun = true
			return nil
		})
	}
	return parallel(ctx, work...)
}

// match replaces v.devices by found. Devices that are already known keep their state; those that
// are gone are aborted.
func (v *checkpoint) match(found []Device) {
	known := v.devices
	v.devices = nil
	for _, each := range found {
		at := slices.IndexFunc(known, func(d *device) bool { return d.Process() == each.Process() })
		if at < 0 {
			v.devices = append(v.devices, &device{Device: each, number: each.Process()})
			continue
		}
		v.devices = append(v.devices, known[at])
		known = slices.Delete(known, at, at+1)
		if each != v.devices[len(v.devices)-1].Device {
			each.Abort() // the same device, found again
		}
	}
	for _, gone := range known {
		v.abortDevice(gone)
	}
}

// retryBusy calls try until it returns no ErrBusy, or until the time is over.
func (v *checkpoint) retryBusy(ctx context.Context, until time.Time, try func(context.Context) error) error {
	for wait := minRetryDelay; ; wait = min(2*wait, maxRetryDelay) {
		err := try(ctx)
		if err == nil || !errors.Is(err, ErrBusy) {
			return err
		}
		v.steps.log.Debug("busy", "why", err)
		if time.Now().Add(wait).After(until) {
			return &DeadlineError{"the program did not become idle", v.order.Deadline, err}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pauseAll ends with all trees quiesced, frozen and cut.
func (v *checkpoint) pauseAll(ctx context.Context) error {
	v.prepareAll(ctx)
	v.firstPause = time.Now()
	until := v.firstPause.Add(v.order.Deadline)
	return v.retryBusy(ctx, until, func(ctx context.Context) error {
		v.lastPause = time.Now()
		attempt := v.steps.branch()
		err := attempt.run(ctx,
			step{"quiesce", func(ctx context.Context) error { return v.quiesce(ctx, until) }, v.openGates},
			step{"freeze", v.freeze, v.thaw},
			step{"cut", func(ctx context.Context) error { return v.cut(ctx, until) }, nil},
			step{"hold", v.hold, nil},
		)
		if err == nil {
			v.steps.join(attempt)
		}
		return err
	})
}

// quiesce closes all gates and waits until all calls are done.
func (v *checkpoint) quiesce(ctx context.Context, until time.Time) error {
	// A process may have begun to use a GPU after the precopy began.
	if err := v.beginDevices(ctx); err != nil {
		return err
	}
	v.progress.phase(Step{Phase: "drain"})
	patience := max(time.Until(until), minRetryDelay)
	if len(v.devices) > 1 {
		// A busy program must not keep the others paused for long. Each try may take as long as all
		// tries before it.
		patience = min(patience, max(time.Since(v.firstPause), minDrain))
	}
	var work []func(context.Context) error
	for _, d := range v.devices {
		work = append(work, func(ctx context.Context) error {
			d.closed = true
			err := d.Quiesce(ctx, patience)
			if errors.Is(err, ErrBusy) {
				d.closed = false // the device opened its gate again
			}
			return withPID(d, err)
		})
	}
	return parallel(ctx, work...)
}

// withPID adds the device's process to the error.
func withPID(d *device, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pid %d: %w", d.Process(), err)
}

// openGates lets all programs make calls again.
func (v *checkpoint) openGates() {
	// The gates are opened even if the caller has cancelled the checkpoint.
	ctx, cancel := context.WithTimeout(context.Background(), openGateTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, d := range v.devices {
		if d.closed {
			all.Go(func() { v.openGate(ctx, d) })
		}
	}
	all.Wait()
}

func (v *checkpoint) openGate(ctx context.Context, d *device) {
	d.closed = false
	if err := d.Resume(ctx); err != nil {
		v.steps.log.Error("open a gate", "pid", d.Process(), "error", err)
		// Aborting its checkpoint makes the worker open the gate by itself.
		v.abortDevice(d)
	}
}

// openGateTimeout is how long a worker may take to open a gate. A worker that hangs on a disk opens
// its gate when it is aborted.
const openGateTimeout = 3 * time.Second

func (v *checkpoint) freeze(ctx context.Context) error {
	for _, tree := range v.trees {
		frozen, err := v.order.CPU.Freeze(ctx, tree)
		if err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
		v.frozen = append(v.frozen, frozen)
	}
	// Everything is stopped now: inspect again.
	trees, err := v.inspectAll(ctx)
	if err != nil {
		return err
	}
	v.trees = trees
	// The process may be gone when the manifest is written.
	if v.groups, err = trees[0].Processes[0].Groups(); err != nil {
		return err
	}
	found, err := v.order.Devices(trees)
	if err != nil {
		return err
	}
	defer v.match(slices.Clone(found))
	if len(found) != len(v.devices) {
		return Busy(errors.New("a process started or stopped using a GPU"))
	}
	return nil
}

func (v *checkpoint) thaw() {
	for _, frozen := range v.frozen {
		if err := frozen.Thaw(); err != nil {
			v.steps.log.Error("cannot thaw", "error", err)
		}
	}
	v.frozen = nil
}

// cut saves dirty memory, the processes and the files that they write, all in parallel.
func (v *checkpoint) cut(ctx context.Context, until time.Time) error {
	v.progress.phase(Step{Phase: "cut"})
	v.files = nil
	v.timing.reset()
	work := []func(context.Context) error{v.timing.timed("files", v.saveFiles)}
	for _, d := range v.devices {
		work = append(work, v.timing.timed("gpu", func(ctx context.Context) error {
			return withPID(d, d.Cut(ctx, max(time.Until(until), minRetryDelay)))
		}))
	}
	for i, work1 := range v.work {
		work = append(work, v.timing.timed("processes", func(ctx context.Context) error {
			return v.dump(ctx, v.frozen[i], work1, v.trees[i])
		}))
	}
	err := parallel(ctx, work...)
	v.dumped = true
	return err
}

// dump runs CRIU to write the processes of one tree.
func (v *checkpoint) dump(ctx context.Context, frozen Frozen, work Work, tree *Tree) error {
	limit := v.dumpTime(tree)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if v.dumped { // the failed dump has reset CRIU's dirty tracking, too
		if err := emptyDirectory(work.Descriptor()); err != nil {
			return err
		}
	}
	err := frozen.Dump(limited, work.Descriptor())
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && (limited.Err() != nil || errors.Is(err, context.DeadlineExceeded)):
		return &DeadlineError{fmt.Sprintf("the processes of pid %d were not written", tree.Processes[0].PID), limit, err}
	}
	return fmt.Errorf("dump: %w", err)
}

func (v *checkpoint) hold(ctx context.Context) error {
	if v.order.Hold == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, v.order.Deadline)
	defer cancel()
	return v.order.Hold(ctx)
}

// resumeAll thaws the trees and opens the gates, unless the programs end with this checkpoint.
func (v *checkpoint) resumeAll(ctx context.Context) error {
	if v.order.Stop {
		return nil
	}
	for len(v.frozen) > 0 {
		if err := v.frozen[0].Thaw(); err != nil {
			return fmt.Errorf("thaw: %w", err)
		}
		v.frozen = v.frozen[1:]
	}
	var work []func(context.Context) error
	for _, d := range v.devices {
		work = append(work, func(ctx context.Context) error {
			err := d.Resume(ctx)
			d.closed = err != nil
			return withPID(d, err)
		})
	}
	err := parallel(ctx, work...)
	v.pause = time.Since(v.lastPause)
	if dropped := v.dropPrepared(); dropped != nil {
		v.steps.log.Error("cannot release what was prepared for the pause", "error", dropped)
	}
	return err
}

// finish makes the workers write what they had only copied to buffers.
func (v *checkpoint) finish(ctx context.Context) error {
	v.progress.phase(Step{Phase: "write"})
	halves := make([]image.GPUHalf, len(v.devices))
	var work []func(context.Context) error
	for i, d := range v.devices {
		work = append(work, func(ctx context.Context) (err error) {
			if halves[i], err = d.Finish(ctx); err == nil {
				// The worker is done: the gate is open, and the pack belongs to the transaction.
				d.begun, d.closed, d.pack = false, false, nil
			}
			return withPID(d, err)
		})
	}
	if err := parallel(ctx, work...); err != nil {
		return err
	}
	for i, d := range v.devices {
		v.halves[d.Process()] = halves[i]
	}
	return nil
}

func (v *checkpoint) abortDevices() {
	for _, d := range v.devices {
		d.Abort()
	}
}
