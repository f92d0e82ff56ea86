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

// graceTimeout is how much longer than its deadline a command may take to be answered.
const graceTimeout = 10 * time.Second

// Device is the worker of one session, in one checkpoint.
type Device struct {
	session Session

	mu     sync.Mutex     // guards stream
	stream *commandStream // nil before Begin and after Abort
}

// Session is the session of a Device.
type Session struct {
	Worker api.WorkerClient
	// Control is the path of the worker's socket.
	Control string
	Program proc.Identity
	// Explain says of an error of a request what has become of the worker.
	Explain func(error) error
	// Half is what is known in advance of the session's half of the image.
	Half image.GPUHalf
}

// New returns the Device of a session. It does not connect to the worker yet.
func New(session Session) *Device { return &Device{session: session} }

// Process returns the pid of the program.
func (d *Device) Process() int { return d.session.Program.PID }

// Begin opens the stream and starts the copy.
func (d *Device) Begin(ctx context.Context, packs []*os.File, options ckpt.GPUOptions) error {
	token, err := d.sendFiles(ctx, packs)
	if err != nil {
		return d.explain(err)
	}
	var limit []byte
	if file := options.Limit.File(); file != nil {
		if limit, err = d.sendFiles(ctx, []*os.File{file}); err != nil {
			return d.explain(err)
		}
	}
	stream, err := openStream(ctx, d.session.Worker, options.Progress)
	if err != nil {
		return d.explain(err)
	}
	d.mu.Lock()
	d.stream = stream
	d.mu.Unlock()
	_, err = d.do(ctx, &api.SaveCommand{Command: &api.SaveCommand_Begin{Begin: &api.SaveBegin{
		Files: token, BudgetBytes: options.BudgetBytes, BandwidthBytes: options.BandwidthBytes,
		Compress: options.Compress, Kinds: options.Kinds, StopTheWorld: options.StopTheWorld,
		Limit: limit,
	}}}, stallTimeout)
	if errors.Is(err, api.ErrExhausted) {
		// Another checkpoint of this program is in flight, or is still ending.
		err = ckpt.Busy(err)
	}
	return err
}

// sendFiles hands files off to the worker. A worker that is alive accepts them at once.
func (d *Device) sendFiles(ctx context.Context, files []*os.File) (token []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		silenceTimeout,
		fmt.Errorf("it has accepted no files for %v: %w", silenceTimeout, context.DeadlineExceeded),
	)
	defer cancel()
	return fdtoken.Send(ctx, d.session.Control, files)
}

// Quiesce closes the gate.
func (d *Device) Quiesce(ctx context.Context, how ckpt.Drain) error {
	return d.limited(ctx, &api.SaveCommand{Command: &api.SaveCommand_Quiesce{Quiesce: &api.SaveQuiesce{
		DeadlineMilliseconds: milliseconds(how.Deadline), Yield: how.Yield, Stay: how.Stay,
	}}}, how.Deadline+graceTimeout)
}

// Cut saves what changed.
func (d *Device) Cut(ctx context.Context, deadline time.Duration) error {
	// If there is no room for the changed chunks, the worker writes them now, which may take long.
	_, err := d.do(ctx, &api.SaveCommand{Command: &api.SaveCommand_Cut{Cut: &api.SaveCut{
		DeadlineMilliseconds: milliseconds(deadline),
	}}}, max(stallTimeout, deadline+graceTimeout))
	return err
}

// Resume opens the gate.
func (d *Device) Resume(ctx context.Context) error {
	return d.limited(ctx, &api.SaveCommand{Command: &api.SaveCommand_Resume{Resume: &api.SaveResume{}}}, graceTimeout)
}

// Finish writes what is left, and returns the session's half of the image.
func (d *Device) Finish(ctx context.Context) (image.GPUHalf, error) {
	done, err := d.do(ctx, &api.SaveCommand{Command: &api.SaveCommand_Finish{Finish: &api.SaveFinish{}}}, stallTimeout)
	if err != nil {
		return image.GPUHalf{}, err
	}
	if err := d.endStream(ctx); err != nil && !errors.Is(err, ckpt.ErrProgramEnded) {
		return image.GPUHalf{}, err
	}
	result := done.GetResult()
	if len(result.GetTree()) != len(image.Hash{}) {
		return image.GPUHalf{}, fmt.Errorf("%w: the worker sent no tree", image.ErrMalformed)
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
	if seen := seenDevices(half.Devices, result); seen != nil {
		half.Devices = seen
		for i, bytes := range result.GetGpuBytes() {
			half.Devices[i].UsedBytes = bytes
		}
	}
	return half, nil
}

// seenDevices returns the GPUs that the program sees, in its order; nil if the worker does not say
// which these are.
func seenDevices(all []image.Device, result *api.SaveResult) []image.Device {
	known := len(result.GetGpuBytes()) // a restored session may know fewer GPUs than there are
	if known == 0 || known > len(all) {
		return nil
	}
	if len(result.GetGpus()) != known {
		return slices.Clone(all[:known])
	}
	var seen []image.Device
	for _, ordinal := range result.GetGpus() {
		if int(ordinal) >= len(all) {
			return nil
		}
		seen = append(seen, all[ordinal])
	}
	return seen
}

// endStream ends the stream. Then the worker is free for the next checkpoint.
func (d *Device) endStream(ctx context.Context) error {
	d.mu.Lock()
	stream := d.stream
	d.stream = nil
	d.mu.Unlock()
	if stream == nil {
		return errNotBegun
	}
	defer stream.cancel()
	ctx, cancel := context.WithTimeout(ctx, graceTimeout)
	defer cancel()
	if err := stream.end(ctx); err != nil {
		return d.explain(err)
	}
	return nil
}

// explain returns ckpt.ErrProgramEnded if the program has ended, and otherwise the worker's error.
func (d *Device) explain(err error) error {
	id := d.session.Program
	if _, zombie := id.Zombie(); zombie || id.Gone() {
		return fmt.Errorf("%w: worker: %v", ckpt.ErrProgramEnded, err) //nolint:errorlint // as below
	}
	return d.session.Explain(err)
}

// Abort cancels the stream: the worker reverts everything.
func (d *Device) Abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stream != nil {
		d.stream.cancel()
		d.stream = nil
	}
}

// errNotBegun is returned for a command before Begin or after Abort.
var errNotBegun = errors.New("no checkpoint of this program is in flight")

// limited is do with a time limit.
func (d *Device) limited(ctx context.Context, command *api.SaveCommand, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := d.do(ctx, command, limit)
	return err
}

// do sends a command and waits for its answer: until the context ends, or the worker makes no
// progress for as long as stall.
func (d *Device) do(ctx context.Context, command *api.SaveCommand, stall time.Duration) (*api.SaveDone, error) {
	d.mu.Lock()
	stream := d.stream
	d.mu.Unlock()
	if stream == nil {
		return nil, errNotBegun
	}
	done, err := stream.do(ctx, command, stall)
	if err != nil {
		return nil, d.explain(err)
	}
	if done.GetBusy() != "" {
		return nil, ckpt.Busy(errors.New(done.GetBusy()))
	}
	return done, nil
}

func milliseconds(d time.Duration) uint64 { return uint64(max(d.Milliseconds(), 1)) }
