package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/pipe"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/config"
)

// maxKinds is how many kinds of state one command may name.
const maxKinds = 16

const dumpDetails = `

The directory is made (mode 0700) if it is missing. A directory that already holds checkpoints gets one more generation, which
shares with the others what did not change; see: pos_cli image list DIR. Child processes are saved with the program.

With --dir - the image goes to standard output, whole, and the last line to standard error:

    pos_cli --dump --dir - --pid 4711 | ssh other pos_cli --restore --dir -

--target names the only kinds of state to save, --skip-target those to leave out: cuda_context, cuda_module, cuda_function,
cuda_var, cuda_device, cuda_memory, cuda_stream, cuda_event; several are separated by commas. Such a generation has no CPU half and no
files, is marked as partial, and cannot be restored: it is there to be looked at (pos_cli image show). Variables stand in device memory,
so cuda_var and cuda_memory each save all of it; the other kinds save the session and its objects, and count those that are named.

Ctrl-C gives up: the program runs on, and the directory is as it was. So does every failure.
Progress goes to standard error. The last line, on standard output, says how long the program stood still, how long it all took,
and how many bytes were written and how many were there already; with --json it is one object.`

var preDumpVerb = verb.Verb{
	Name:      "pre-dump",
	Arguments: "--dir DIR --pid PID",
	Summary:   "checkpoint a program that keeps running",
	About: `Saves a program and its GPU state while it runs. It stands still once, briefly, and goes on.

    pos_cli --pre-dump --dir /data/ckpt --pid 4711` + dumpDetails,
	Prepare: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		return prepareDump(flags, false)
	},
}

var dumpVerb = verb.Verb{
	Name:      "dump",
	Arguments: "--dir DIR --pid PID",
	Summary:   "checkpoint a program and stop it",
	About: `Saves a program and its GPU state, and ends it once the image is complete.

    pos_cli --dump --dir /data/ckpt --pid 4711
    pos_cli --restore --dir /data/ckpt` + dumpDetails,
	Prepare: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		return prepareDump(flags, true)
	},
}

type dumpOptions struct {
	dir               string
	pid               uint
	targets, skipped  []string
	budget, bandwidth config.Size
	deadline          time.Duration
	compress, asJSON  bool
	stop              bool
	// partial says that some kind of state is left out.
	partial bool
}

func prepareDump(flags *flag.FlagSet, stop bool) func(context.Context, verb.Streams, []string) error {
	options := dumpOptions{stop: stop}
	flags.StringVar(&options.dir, "dir", "", "`DIR` of the image")
	flags.UintVar(&options.pid, "pid", 0, "`PID` of the program")
	flags.Func("target", "only these `KINDS` of state, separated by commas", appendTo(&options.targets))
	flags.Func("skip-target", "all but these `KINDS` of state", appendTo(&options.skipped))
	flags.BoolVar(&options.compress, "compress", false, "compress what is written")
	flags.TextVar(
		&options.bandwidth,
		"bandwidth",
		config.Size(0),
		"write at most `BYTES` a second, as 500MiB; 0: phosd's setting",
	)
	flags.TextVar(
		&options.budget,
		"budget",
		config.Size(0),
		"use at most `BYTES` of memory for copies, as 1GiB; 0: phosd's setting",
	)
	flags.DurationVar(&options.deadline, "deadline", 0, "give up after `TIME`, as 90s; 0: phosd's setting")
	flags.BoolVar(&options.asJSON, "json", false, "print the result as JSON, and no progress")
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		if err := options.check(); err != nil {
			return err
		}
		return dump(ctx, to, options)
	}
}

func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		*list = append(*list, strings.Split(value, ",")...)
		return nil
	}
}

func (o *dumpOptions) check() error {
	switch {
	case o.dir == "":
		return &verb.UsageError{Text: "name the image's directory: --dir DIR"}
	case o.pid == 0:
		return &verb.UsageError{Text: "name the program: --pid PID"}
	case o.pid > math.MaxInt32:
		return &verb.UsageError{Text: fmt.Sprintf("%d is no pid; name the program: --pid PID", o.pid)}
	case len(o.targets) > 0 && len(o.skipped) > 0:
		return &verb.UsageError{Text: "--target and --skip-target exclude each other"}
	case len(o.targets)+len(o.skipped) > maxKinds:
		return &verb.UsageError{Text: fmt.Sprintf("at most %d kinds of state can be named", maxKinds)}
	case o.deadline < 0:
		return &verb.UsageError{Text: "the deadline lies in the past"}
	}
	kinds, err := image.ChooseKinds(o.targets, o.skipped)
	if err != nil {
		return &verb.UsageError{Text: err.Error()}
	}
	o.partial = len(kinds) > 0
	return nil
}

func dump(ctx context.Context, to verb.Streams, options dumpOptions) error {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	dir, clear, err := options.target()
	if err != nil {
		return err
	}
	if options.dir == pipe.Dir {
		to.Out = to.Err // its place is the image's
	} else {
		defer dir.Close()
	}
	token, err := fdtoken.Send(ctx, api.Socket(), []*os.File{dir})
	if err != nil {
		clear()
		return err
	}
	done, err := followDump(ctx, to, client, &options, token)
	if err != nil {
		clear()
		return options.explain(ctx, err)
	}
	if options.asJSON {
		return json.NewEncoder(to.Out).Encode(dumpViewOf(options.dir, done))
	}
	text := dumpText(done)
	if options.partial {
		text += "; partial: it cannot be restored"
	}
	_, err = fmt.Fprintln(to.Out, text)
	return err
}

// target is the image's directory, or, for a stream, standard output.
func (o *dumpOptions) target() (target *os.File, clear func(), err error) {
	if o.dir == pipe.Dir {
		target, err = pipe.Out()
		return target, func() {}, err
	}
	return makeDirectory(o.dir)
}

// explain is what the user learns. A checkpoint that does not come to its end is taken back by
// phosd.
func (o *dumpOptions) explain(ctx context.Context, err error) error {
	where := fmt.Sprintf(", and %s is as it was", o.dir)
	if o.dir == pipe.Dir {
		where = ""
	}
	switch {
	case errors.Is(err, errAbandoned):
		return fmt.Errorf(
			"%w: phosd takes the checkpoint back, unless it was complete; then pid %d runs on%s",
			err,
			o.pid,
			where,
		)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return fmt.Errorf("cancelled: pid %d runs on%s", o.pid, where)
	}
	return err
}

func (o *dumpOptions) begin(token []byte) *api.CheckpointCommand {
	return &api.CheckpointCommand{Command: &api.CheckpointCommand_Begin{Begin: &api.CheckpointBegin{
		Pids: []uint32{
			uint32(o.pid),
		}, Files: token, Stream: o.dir == pipe.Dir, Stop: o.stop, Targets: o.targets, SkipTargets: o.skipped,
		BudgetBytes: uint64(o.budget), BandwidthBytes: uint64(o.bandwidth), Compress: o.compress,
		DeadlineMilliseconds: uint64(o.deadline.Milliseconds()),
	}}}
}

// followDump asks for a checkpoint and shows how far it is. When the context ends, phosd is told to
// take it back, and waited for.
func followDump(
	ctx context.Context,
	to verb.Streams,
	client *api.Client,
	options *dumpOptions,
	token []byte,
) (*api.CheckpointDone, error) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stream, err := client.Daemon.Checkpoint(lasting)
	if err != nil {
		return nil, api.FromStatus(err)
	}
	if err := stream.Send(options.begin(token)); err != nil {
		// Why stands in what is received.
		_, err = stream.Recv()
		return nil, api.FromStatus(err)
	}
	bar := terminal.NewBar(to.Err)
	defer bar.Clear()
	defer onCancel(ctx, cancel, func() error {
		bar.Say(cancelText)
		return stream.Send(
			&api.CheckpointCommand{Command: &api.CheckpointCommand_Cancel{Cancel: &api.CheckpointCancel{}}},
		)
	})()
	for {
		event, err := stream.Recv()
		switch {
		case err != nil && errors.Is(context.Cause(lasting), errAbandoned):
			return nil, errAbandoned
		case err != nil:
			return nil, api.FromStatus(err)
		case event.GetDone() != nil:
			return event.GetDone(), nil
		case options.asJSON:
		case event.GetStep() != nil:
			step := event.GetStep()
			bar.Step(step.GetPhase(), step.GetDoneBytes(), step.GetTotalBytes())
		case event.GetNotice() != "":
			bar.Say(event.GetNotice())
		}
	}
}

// dumpView is what --dump --json prints. Scripts read it: fields may be added, never renamed or
// taken away.
type dumpView struct {
	Dir               string `json:"dir"`
	Generation        uint64 `json:"generation"`
	Processes         uint64 `json:"processes"`
	PauseMicroseconds uint64 `json:"pause_microseconds"`
	TotalMicroseconds uint64 `json:"total_microseconds"`
	MemoryBytes       uint64 `json:"memory_bytes"`
	WrittenBytes      uint64 `json:"written_bytes"`
	GPUWrittenBytes   uint64 `json:"gpu_written_bytes"`
	SharedBytes       uint64 `json:"shared_bytes"`
	// TookMicroseconds are by the names of steps; what has a dot is a part of the step before the dot.
	TookMicroseconds map[string]uint64 `json:"took_microseconds,omitempty"`
}

func dumpViewOf(dir string, done *api.CheckpointDone) dumpView {
	return dumpView{
		Dir: dir, Generation: done.GetGeneration(), Processes: done.GetProcesses(),
		PauseMicroseconds: done.GetPauseMicroseconds(), TotalMicroseconds: done.GetTotalMicroseconds(),
		MemoryBytes: done.GetMemoryBytes(), WrittenBytes: done.GetWrittenBytes(), GPUWrittenBytes: done.GetGpuWrittenBytes(),
		SharedBytes: done.GetSharedBytes(), TookMicroseconds: done.GetTookMicroseconds(),
	}
}

func dumpText(done *api.CheckpointDone) string {
	return fmt.Sprintf("generation %d: paused %s, took %s, wrote %s, shared %s", done.GetGeneration(),
		humanize.Microseconds(done.GetPauseMicroseconds()), humanize.Microseconds(done.GetTotalMicroseconds()),
		humanize.Bytes(done.GetWrittenBytes()), humanize.Bytes(done.GetSharedBytes()))
}

// makeDirectory opens a directory with the caller's rights, and makes it if it is missing. When
// nothing came of it, clear takes away what was made; a directory that holds anything stays.
func makeDirectory(path string) (dir *os.File, clear func(), err error) {
	made := os.Mkdir(path, 0o700)
	if made != nil && !errors.Is(made, os.ErrExist) {
		return nil, nil, explainMkdir(path, made)
	}
	clear = func() {
		if made == nil {
			_ = os.Remove(path) // it only succeeds for an empty one
		}
	}
	if dir, err = os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		clear()
		return nil, nil, explainMkdir(path, err)
	}
	return dir, clear, nil
}

// explainMkdir says why a directory can be neither made nor opened, and what to do about it.
func explainMkdir(path string, why error) error {
	_, nowhere := os.Getwd()
	_, above := os.Stat(filepath.Dir(path))
	link, _ := os.Readlink(path)
	switch {
	case errors.Is(why, unix.ENOTDIR):
		return fmt.Errorf("%w; name a directory, which need not be there yet", why)
	case !errors.Is(why, os.ErrNotExist):
		return why
	case link != "":
		return fmt.Errorf("%w; it is a link to %s, which is missing", why, link)
	case nowhere != nil && !filepath.IsAbs(path):
		return fmt.Errorf("%w; the current directory was removed: name the directory by its whole path", why)
	case above != nil:
		return fmt.Errorf("%w; %s is missing: make that first", why, filepath.Dir(path))
	}
	return why
}
