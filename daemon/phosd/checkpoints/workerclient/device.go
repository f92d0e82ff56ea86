package workerclient

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// graceTime is how much longer than its deadline a command may take to be answered.
const graceTime = 10 * time.Second

// Device is one session's worker, in one checkpoint.
type Device struct {
	session Session

	mu   sync.Mutex // guards talk
	talk *talk      // nil before Begin and after Abort
}

// Session is what a Device must know of a session.
type Session struct {
	Worker api.WorkerClient
	// Control is the path of the worker's socket.
	Control string
	Program proc.Identity
	// Half is what is known of the image beforehand.
	Half image.GPUHalf
}

// New makes the Device of a session. It asks the worker for nothing yet.
func New(session Session) *Device { return &Device{session: session} }

// Process is the pid of the program.
func (d *Device) Process() int { return d.session.Program.PID }

// Begin opens the stream and copies.
func (d *Device) Begin(ctx context.Context, packs []*os.File, options ckpt.DeviceOptions) error {
	token, err := d.give(ctx, packs)
	if err != nil {
		return d.lost(err)
	}
	begun, err := begin(ctx, d.session.Worker, options.Progress)
	if err != nil {
		return d.lost(err)
	}
	d.mu.Lock()
	d.talk = begun
	d.mu.Unlock()
	_, err = d.do(ctx, &api.SaveCommand{Command: &api.SaveCommand_Begin{Begin: &api.SaveBegin{
		Files: token, BudgetBytes: options.BudgetBytes, BandwidthBytes: options.BandwidthBytes,
		Compress: options.Compress, Kinds: options.Kinds, StopTheWorld: options.StopTheWorld,
	}}}, stallTime)
	if errors.Is(err, api.ErrExhausted) {
		// Another checkpoint of this program is under way, or has not wholly ended.
		err = ckpt.Busy(err)
	}
	return err
}

// give hands files to the worker, which takes them at once, or does nothing any more.
func (d *Device) give(ctx context.Context, files []*os.File) (token []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		quietTime,
		fmt.Errorf("it has taken no files for %v: %w", quietTime, context.DeadlineExceeded),
	)
	defer cancel()
	return fdtoken.Send(ctx, d.session.Control, files)
}

// Quiesce closes the gate.
func (d *Device) Quiesce(ctx context.Context, deadline time.Duration) error {
	return d.limited(ctx, &api.SaveCommand{Command: &api.SaveCommand_Quiesce{Quiesce: &api.SaveQuiesce{
		DeadlineMilliseconds: milliseconds(deadline),
	}}}, deadline+graceTime)
}

// Cut saves what changed.
func (d *Device) Cut(ctx context.Context, deadline time.Duration) error {
	// Without room for what changed it is written right away: that takes as long as it takes.
	_, err := d.do(ctx, &api.SaveCommand{Command: &api.SaveCommand_Cut{Cut: &api.SaveCut{
		DeadlineMilliseconds: milliseconds(deadline),
	}}}, max(stallTime, deadline+graceTime))
	return err
}

// Resume opens the gate.
func (d *Device) Resume(ctx context.Context) error {
	return d.limited(ctx, &api.SaveCommand{Command: &api.SaveCommand_Resume{Resume: &api.SaveResume{}}}, graceTime)
}

// Finish writes what is left.
func (d *Device) Finish(ctx context.Context) (image.GPUHalf, error) {
	done, err := d.do(ctx, &api.SaveCommand{Command: &api.SaveCommand_Finish{Finish: &api.SaveFinish{}}}, stallTime)
	if err != nil {
		return image.GPUHalf{}, err
	}
	if err := d.bye(ctx); err != nil && !errors.Is(err, ckpt.ErrEnded) {
		return image.GPUHalf{}, err
	}
	result := done.GetResult()
	if len(result.GetTree()) != len(image.Hash{}) {
		return image.GPUHalf{}, fmt.Errorf("%w: the worker names no tree", image.ErrMalformed)
	}
	half := d.session.Half
	half.Tree = hex.EncodeToString(result.GetTree())
	half.MemoryBytes, half.PinnedBytes = result.GetMemoryBytes(), result.GetArenaBytes()
	half.WrittenBytes, half.SharedBytes = result.GetWrittenBytes(), result.GetSharedBytes()
	half.Objects, half.Code = result.GetObjects(), []image.Code{}
	for _, c := range result.GetCode() {
		half.Code = append(
			half.Code,
			image.Code{
				Name:    c.GetName(),
				Targets: c.GetTargets(),
				Kernels: c.GetKernels(),
				Modules: int(c.GetModules()),
			},
		)
	}
	if known := len(result.GetGpuBytes()); known > 0 && known <= len(half.Devices) {
		half.Devices = slices.Clone(half.Devices[:known]) // one that was restored may know fewer than there are
		for i, bytes := range result.GetGpuBytes() {
			half.Devices[i].UsedBytes = bytes
		}
	}
	return half, nil
}

// bye ends the stream in peace: once it is over, the worker is free for the next checkpoint.
func (d *Device) bye(ctx context.Context) error {
	d.mu.Lock()
	talk := d.talk
	d.talk = nil
	d.mu.Unlock()
	if talk == nil {
		return errNotBegun
	}
	defer talk.cancel()
	ctx, cancel := context.WithTimeout(ctx, graceTime)
	defer cancel()
	if err := talk.end(ctx); err != nil {
		return d.lost(err)
	}
	return nil
}

// lost says what it means that a worker does not answer as it should.
func (d *Device) lost(err error) error {
	id := d.session.Program
	if _, zombie := id.Zombie(); zombie || id.Gone() {
		return fmt.Errorf("%w: worker: %v", ckpt.ErrEnded, err) //nolint:errorlint // as below
	}
	return ofWorker(err)
}

// Abort ends the stream: the worker takes everything back.
func (d *Device) Abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.talk != nil {
		d.talk.cancel()
		d.talk = nil
	}
}

// errNotBegun means that a command came before Begin, or after Abort.
var errNotBegun = errors.New("no checkpoint of this program is on its way")

// limited is do for at most as long as limit says.
func (d *Device) limited(ctx context.Context, command *api.SaveCommand, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := d.do(ctx, command, limit)
	return err
}

// do gives a command and waits for its answer: until the context ends, or the worker gets no
// further for as long as stall says.
func (d *Device) do(ctx context.Context, command *api.SaveCommand, stall time.Duration) (*api.SaveDone, error) {
	d.mu.Lock()
	talk := d.talk
	d.mu.Unlock()
	if talk == nil {
		return nil, errNotBegun
	}
	done, err := talk.do(ctx, command, stall)
	if err != nil {
		return nil, d.lost(err)
	}
	if done.GetBusy() != "" {
		return nil, ckpt.Busy(errors.New(done.GetBusy()))
	}
	return done, nil
}

func milliseconds(d time.Duration) uint64 { return uint64(max(d.Milliseconds(), 1)) }
