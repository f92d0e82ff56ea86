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
	"slices"
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
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// maxKinds is how many kinds of state one command may name.
const maxKinds = 16

const dumpDetails = `

The directory is created (mode 0700) if it is missing. So are its parents, below the working
directory and below a directory of the caller; elsewhere the parent must exist. A directory that
already holds checkpoints gets one more generation, which shares unchanged data with the others; see:
pos_cli image list DIR.
Child processes are saved with the program.

With --dir - the whole image goes to standard output, and the last line to standard error:

    pos_cli --dump --dir - --pid 4711 | ssh other pos_cli --restore --dir -

--target names the kinds of state to save, --skip-target the kinds to leave out: cuda_context,
cuda_module, cuda_function, cuda_var, cuda_device, cuda_memory, cuda_stream, cuda_event; separate
several by commas. Such a generation has no CPU half and no files, is marked as partial, and cannot
be restored: it is for inspection only (pos_cli image show). Variables are in device memory, so
cuda_var and cuda_memory each save all of it. The other kinds save the session and its objects, and
count the objects of the named kinds.

--bandwidth limits what is read from GPUs and written to the image, both halves and all programs
together: GPU and page-locked memory when it is copied, before and after the pause, and what the
image gets of processes and files, which it does not have yet. A pause is not made longer by it: what
is written while the program is paused, and will run on, is not held up, but later writes wait for
it. With --dump that is only what does not fit into --budget. CRIU's own files, in memory or in
phosd's state directory, do not count. With --dir - the stream is limited, too.

--deadline is for the whole command: when it is over, the checkpoint is undone, the program runs on,
and the directory is as it was. --idle-time is for the pause: how long GPU work in flight may take to
end, and how long CRIU may take beyond what the size of the program allows for.

Ctrl-C cancels. After a cancelled or failed checkpoint the program keeps running, and the directory
is as it was.

Progress goes to standard error. The last line, on standard output, has the time that the program
was paused, the total time, the bytes that were written and the bytes that the image already had;
with --json it is one object, which also has what phosd wants you to know (notices), and how long
each step took (took_microseconds; "cut.gpu" is a part of "cut"). The pause is that of the attempt
that succeeded, from the first call that had to wait until calls went on. "attempts" has all
attempts, with what was prepared for them and the waits between them, while the program ran;
"quiesce", "freeze", "cut" and "hold" are the sums over all attempts.`

var preDumpVerb = verb.Verb{
	Name:      "pre-dump",
	Arguments: "--dir DIR --pid PID",
	Summary:   "checkpoint a program, which keeps running",
	About: `Saves a program and its GPU state while it runs. The program is paused once, briefly.

    pos_cli --pre-dump --dir /data/ckpt --pid 4711` + dumpDetails,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
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
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		return prepareDump(flags, true)
	},
}

type dumpOptions struct {
	dir               string
	pid               uint
	targets, skipped  []string
	budget, bandwidth config.Size
	deadline, idle    time.Duration
	compress, asJSON  bool
	stop              bool
	// partial is set if some kinds of state are left out.
	partial bool
	// notices are phosd's, for --json.
	notices []string
}

// prepareDump defines the flags of a pre-dump or, with stop, a dump, and returns what runs it.
func prepareDump(flags *flag.FlagSet, stop bool) func(context.Context, verb.Streams, []string) error {
	options := dumpOptions{stop: stop}
	flags.StringVar(&options.dir, "dir", "", "`DIR` of the image")
	flags.UintVar(&options.pid, "pid", 0, "`PID` of the program")
	flags.Func("target", "save only these `KINDS` of state, separated by commas", appendTo(&options.targets))
	flags.Func("skip-target", "save all but these `KINDS` of state, separated by commas", appendTo(&options.skipped))
	flags.BoolVar(&options.compress, "compress", false, "compress the data that is written")
	flags.TextVar(
		&options.bandwidth,
		"bandwidth",
		config.Size(0),
		"copy and write at most `BYTES` a second while the program runs, for example 500MiB; 0: phosd's setting",
	)
	flags.TextVar(
		&options.budget,
		"budget",
		config.Size(0),
		"use at most `BYTES` of memory for copies, for example 1GiB; 0: phosd's setting",
	)
	flags.DurationVar(&options.deadline, "deadline", 0, "give up after `TIME`, for example 90s; 0: never")
	flags.DurationVar(
		&options.idle,
		"idle-time",
		0,
		"wait at most `TIME` for the program to become idle, for example 90s; 0: phosd's setting",
	)
	flags.BoolVar(&options.asJSON, "json", false, "print the result as JSON, and no progress")
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		if err := options.check(); err != nil {
			return err
		}
		return dump(ctx, to, options)
	}
}

// appendTo returns a flag's setter that adds the comma-separated values to a list.
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
		return &verb.UsageError{Text: fmt.Sprintf("%d is not a pid; name the program: --pid PID", o.pid)}
	case len(o.targets) > 0 && len(o.skipped) > 0:
		return &verb.UsageError{Text: "--target and --skip-target exclude each other"}
	case len(o.targets)+len(o.skipped) > maxKinds:
		return &verb.UsageError{Text: fmt.Sprintf("at most %d kinds of state can be named", maxKinds)}
	case o.deadline < 0:
		return &verb.UsageError{Text: "the deadline is in the past"}
	case o.idle < 0:
		return &verb.UsageError{Text: "--idle-time must not be negative"}
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
	dir, removeDir, err := options.target()
	if err != nil {
		return err
	}
	if options.dir == pipe.Dir {
		to.Out = to.Err // the image goes to standard output
	} else {
		defer dir.Close()
	}
	token, err := fdtoken.Send(ctx, api.Socket(), []*os.File{dir})
	if err != nil {
		removeDir()
		return err
	}
	done, err := followDump(ctx, to, client, &options, token)
	if err != nil {
		removeDir()
		return options.explain(ctx, err)
	}
	if options.asJSON {
		view := dumpViewOf(options.dir, done)
		view.Notices = append(view.Notices, options.notices...)
		return json.NewEncoder(to.Out).Encode(view)
	}
	text := dumpText(done)
	if options.partial {
		text += "; partial: it cannot be restored"
	}
	_, err = fmt.Fprintln(to.Out, text+pauseText(done))
	return err
}

// target returns the image's directory, or, for a stream, standard output.
func (o *dumpOptions) target() (target *os.File, removeDir func(), err error) {
	if o.dir == pipe.Dir {
		target, err = pipe.Out()
		return target, func() {}, err
	}
	return makeDirectory(o.dir)
}

// explain returns the error for the user. phosd undoes a checkpoint that does not complete.
func (o *dumpOptions) explain(ctx context.Context, err error) error {
	where := fmt.Sprintf(", and %s is as it was", o.dir)
	if o.dir == pipe.Dir {
		where = ""
	}
	switch {
	case errors.Is(err, errAbandoned):
		return fmt.Errorf(
			"%w: phosd undoes the checkpoint, unless it was already complete; then pid %d keeps running%s",
			err,
			o.pid,
			where,
		)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return fmt.Errorf("cancelled: pid %d keeps running%s", o.pid, where)
	case strings.Contains(err.Error(), unix.ENOSPC.Error()):
		return fmt.Errorf("%w: pid %d keeps running%s", err, o.pid, where)
	}
	return err
}

// beginCommand returns the first command of a checkpoint; token names the files sent beside it.
func (o *dumpOptions) beginCommand(token []byte) *api.CheckpointCommand {
	return &api.CheckpointCommand{Command: &api.CheckpointCommand_Begin{Begin: &api.CheckpointBegin{
		Pids: []uint32{
			uint32(o.pid),
		}, Files: token, Stream: o.dir == pipe.Dir, Stop: o.stop, Targets: o.targets, SkipTargets: o.skipped,
		BudgetBytes: uint64(o.budget), BandwidthBytes: uint64(o.bandwidth), Compress: o.compress,
		DeadlineMilliseconds: uint64(o.deadline.Milliseconds()), IdleMilliseconds: uint64(o.idle.Milliseconds()),
	}}}
}

// followDump requests a checkpoint and shows its progress. When the context ends it sends a cancel,
// and waits until phosd has undone the checkpoint.
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
	if err := stream.Send(options.beginCommand(token)); err != nil {
		// The reason arrives with Recv.
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
		case options.asJSON && event.GetNotice() != "":
			options.notices = append(options.notices, humanize.Printable(event.GetNotice()))
		case options.asJSON:
		case event.GetStep() != nil:
			step := event.GetStep()
			bar.Step(terminal.PhaseText(step.GetPhase()), step.GetDoneBytes(), step.GetTotalBytes())
		case event.GetNotice() != "":
			bar.Say(humanize.Printable(event.GetNotice()))
		}
	}
}

// dumpView is what --dump --json prints. Scripts read it: fields may be added, never renamed or
// removed.
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
	// Notices are what phosd wants the user to know.
	Notices []string `json:"notices"`
	// TookMicroseconds has the durations of steps by name; "a.b" is a part of step a. "pause" is
	// PauseMicroseconds.
	TookMicroseconds map[string]uint64 `json:"took_microseconds,omitempty"`
}

func dumpViewOf(dir string, done *api.CheckpointDone) dumpView {
	return dumpView{
		Dir: dir, Generation: done.GetGeneration(), Processes: done.GetProcesses(),
		PauseMicroseconds: done.GetPauseMicroseconds(), TotalMicroseconds: done.GetTotalMicroseconds(),
		MemoryBytes: done.GetMemoryBytes(), WrittenBytes: done.GetWrittenBytes(), GPUWrittenBytes: done.GetGpuWrittenBytes(),
		SharedBytes: done.GetSharedBytes(), Notices: []string{}, TookMicroseconds: done.GetTookMicroseconds(),
	}
}

func dumpText(done *api.CheckpointDone) string {
	return fmt.Sprintf("generation %d: paused %s, took %s, wrote %s, shared %s", done.GetGeneration(),
		humanize.Microseconds(done.GetPauseMicroseconds()), humanize.Microseconds(done.GetTotalMicroseconds()),
		humanize.Bytes(done.GetWrittenBytes()), humanize.Bytes(done.GetSharedBytes()))
}

// pauseText says what the pause was spent on. A program that was stopped has none.
func pauseText(done *api.CheckpointDone) string {
	took := done.GetTookMicroseconds()
	if took["resume"] == 0 {
		return ""
	}
	return "\n  the pause: " + humanize.Pause(done.GetPauseMicroseconds(), took)
}

// makeDirectory opens a directory with the caller's rights, and creates it if it is missing, by the
// rule of rootdir.Maker. remove deletes what was created here and is still empty.
func makeDirectory(path string) (dir *os.File, remove func(), err error) {
	from := "."
	if filepath.IsAbs(path) {
		from, _ = os.Getwd() // an error: it was removed, and nothing is below it
	}
	fd, made, err := rootdir.Maker{At: unix.AT_FDCWD, UID: uint32(os.Geteuid()), From: from}.Open(path)
	remove = func() {
		for _, each := range slices.Backward(made) {
			_ = os.Remove(each) // fails unless the directory is empty
		}
	}
	if err != nil {
		remove()
		return nil, nil, explainMkdir(path, err)
	}
	return os.NewFile(uintptr(fd), path), remove, nil
}

// explainMkdir adds what to do to the error of creating or opening a directory.
func explainMkdir(path string, err error) error {
	_, cwdErr := os.Getwd()
	link, _ := os.Readlink(path)
	var parent *rootdir.ParentError
	switch {
	case errors.Is(err, unix.ENOTDIR):
		err = fmt.Errorf("%w; name a directory, which may be missing", err)
	case errors.Is(err, os.ErrNotExist) && link != "":
		err = fmt.Errorf("%w; it is a link to %s, which is missing", err, link)
	case errors.As(err, &parent):
	case errors.Is(err, os.ErrNotExist) && cwdErr != nil && !filepath.IsAbs(path):
		err = fmt.Errorf("%w; the current directory was removed: use an absolute path", err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}
