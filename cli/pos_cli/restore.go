package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/imagecmd"
	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/cli/pipe"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

var restoreVerb = verb.Verb{
	Name:      "restore",
	Arguments: "--dir DIR",
	Summary:   "restore a checkpointed program",
	About: `Restores a program as it was when it was saved. It runs before all its memory is loaded; --eager
loads all memory first.

Without --detach, pos_cli connects the program to this terminal, or to its own standard input,
output and error. It forwards SIGINT, SIGTERM and SIGHUP, except those that it was started to
ignore, for example by nohup. It ends with the program's exit status (128 + n for signal n). If
phosd ends, pos_cli keeps running and reattaches to the next phosd.

With --detach it returns once the program runs and all its memory is loaded, so that its exit status
tells whether the image was whole; Ctrl-C returns at once, and the program goes on. The program's
output to a terminal or a pipe goes to phosd's log.

The program needs its pids. If one is taken, use --new-pids: it restores the program in a pid
namespace of its own, so one image can be restored several times at once. Such programs have a
/dev/shm of their own, but they share all other files: two of them may write the same file.

In a container into which phosd's runtime directory is mounted, pos_cli uses the pids of the
container, and restores programs in that container.

    pos_cli --restore --dir /data/ckpt
    pos_cli --restore --dir /data/ckpt --generation 3 --detach --new-pids
    pos_cli --restore --dir /data/ckpt --gpus 1

The program gets the GPUs that it had, or the first ones if the machine has fewer. --gpus names
others, in the order in which the program sees its own. A list that is shorter than what it sees is
for the GPUs on which it has memory; the rest stays where it was, or gets what is left. The numbers in
CUDA_VISIBLE_DEVICES go on to mean the program's GPUs, also for programs that it starts later.

An image that was sealed by another machine, whose key was not imported, is restored only for root
with --trust-seal: such an image can run anything as any user.

Files that the program had open for writing are part of the image. A restore gives them their content
at the checkpoint, which the program's memory fits. If a file has changed since, pos_cli says so, and
no data is lost:

  - A file that another process has open for writing is kept as it is, and so is a changed file that
    another process has open.
  - A file that has only grown, and to which the program only appends (>>, O_APPEND), is kept. The
    program may write the same lines again: pos_cli names such logs, with what was appended.
    --files=restore cuts them off at the checkpoint.
  - The files of an SQLite database are kept, all or none. If the program was in a transaction, they
    are restored as below, because the program goes on with it.
  - Any other file is restored. What that overwrites is copied to FILE.phos-TIME beside it: of a file
    that has only grown the new end, else all. If no copy can be made, the restore fails.

--files=keep keeps all files that have changed, --files=restore restores them without a copy, except
those that another process has open for writing, and --files=refuse refuses the restore. A program
whose file was kept continues at its old position in that file: one that does not append overwrites
what is there, or leaves a gap if the file is shorter now. pos_cli image check tells in advance which
files have changed.

With --dir - it reads an image from standard input, as --dump --dir - writes it; the program's own
input is empty then.

Ctrl-C before the program runs cancels the restore: no process is left, and the image stays as it
is.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		options := restoreOptions{standard: terminal.Standard{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}}
		flags.StringVar(&options.dir, "dir", "", "`DIR` of the image")
		flags.Uint64Var(&options.generation, "generation", 0, "the `N`th generation; 0: the newest")
		flags.BoolVar(&options.detach, "detach", false, "return once the program runs with all its memory")
		flags.BoolVar(&options.newPIDs, "new-pids", false, "give the program a pid namespace of its own")
		flags.BoolVar(&options.eager, "eager", false, "load all memory before the program runs")
		flags.StringVar(&options.gpus, "gpus", "", gpusUsage)
		flags.Func("files", filesUsage, options.files.set)
		flags.BoolVar(&options.trustSeal, "trust-seal", false, trustSealUsage)
		flags.BoolVar(&options.asJSON, "json", false, "with --detach: print the result as JSON, and no progress")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			switch {
			case options.dir == "":
				return &verb.UsageError{Text: "name the image's directory: --dir DIR"}
			case options.asJSON && !options.detach:
				return &verb.UsageError{Text: "--json needs --detach: without it, standard output is the program's"}
			}
			return restore(ctx, to, options)
		}
	},
}

// gpusUsage describes --gpus.
const gpusUsage = "restore onto this `LIST` of GPUs, numbers or UUIDs; default: those that it had"

// trustSealUsage describes --trust-seal.
const trustSealUsage = "as root: restore an image whose seal is by an unknown key"

type restoreOptions struct {
	dir                    string
	generation             uint64
	detach, newPIDs, eager bool
	trustSeal, asJSON      bool
	gpus                   string
	files                  filesPolicy
	standard               terminal.Standard
}

// filesUsage describes --files.
const filesUsage = "`WHAT` to do with files that have changed since: keep, restore or refuse (default: lose no data)"

// filesPolicy is the value of --files.
type filesPolicy savedfile.Policy

// set is the flag's setter.
func (p *filesPolicy) set(text string) error {
	policy, err := savedfile.ParsePolicy(text)
	if err == nil && policy == savedfile.Default {
		err = errors.New("use keep, restore or refuse")
	}
	*p = filesPolicy(policy)
	return err
}

// programEnded is returned when the restored program ended with a status other than 0. pos_cli ends
// with the same status and prints nothing.
type programEnded struct{ status int }

func (e *programEnded) Error() string {
	return fmt.Sprintf("the program ended with status %d", e.status)
}

func restore(ctx context.Context, to verb.Streams, options restoreOptions) error {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	gpus, err := launch.Ordinals(ctx, client, options.gpus)
	if err != nil {
		return err
	}
	dir, manifest, err := options.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	ends, err := options.ends(manifest)
	if err != nil {
		return err
	}
	defer ends.Close()
	given, ids := ends.ProgramFiles()
	token, err := fdtoken.Send(ctx, api.Socket(), append([]*os.File{dir}, given...))
	if err != nil {
		return err
	}
	if err := ends.CloseProgramFiles(); err != nil {
		return err
	}
	begin := &api.RestoreBegin{
		Files: token, Generation: manifest.Generation, Stream: options.dir == pipe.Dir, Endpoints: ids,
		Eager: options.eager, Detach: options.detach, NewPids: options.newPIDs, TrustSeal: options.trustSeal,
		ChangedFiles: string(options.files), Gpus: gpus,
	}
	return followRestore(ctx, client, begin, &follower{
		to: to, bar: terminal.NewBar(to.Err), ends: ends, detach: options.detach,
		asJSON: options.asJSON, view: restoreView{Notices: []string{}}, running: make(chan struct{}),
	})
}

// open opens the image and reads its manifest. It fixes the newest generation now, because another
// one may be added before phosd opens the image.
func (o *restoreOptions) open() (*os.File, *image.Manifest, error) {
	if o.dir == pipe.Dir {
		if o.generation != 0 {
			return nil, nil, &verb.UsageError{Text: "a stream has one generation"}
		}
		manifest, stream, err := pipe.In(o.standard.In)
		if err != nil {
			return nil, nil, fmt.Errorf("image from standard input: %w", err)
		}
		o.standard.In, err = os.Open(os.DevNull) // standard input holds the image
		return stream, manifest, err
	}
	dir, err := imagecmd.OpenDirectory(o.dir)
	if err != nil {
		return nil, nil, err
	}
	opened, err := store.Open(dir)
	if err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	defer opened.Close()
	// phosd checks the seal, because it has the keys.
	manifest, err := opened.Inspect(o.generation)
	if errors.Is(err, image.ErrMalformed) {
		err = fmt.Errorf("image: %w; another generation may be undamaged (--generation N): pos_cli image verify %s",
			err, o.dir)
	}
	if err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	return dir, manifest, nil
}

// ends opens the endpoints of the image that pos_cli serves.
func (o *restoreOptions) ends(manifest *image.Manifest) (*terminal.Endpoints, error) {
	described := manifest.Endpoints
	if o.detach {
		described = nil
	}
	return terminal.NewEndpoints(described, manifest.Owner.UID, o.standard)
}

// followRestore restores the program and follows it until it ends.
func followRestore(
	ctx context.Context,
	client *api.Client,
	begin *api.RestoreBegin,
	v *follower,
) error {
	// Signals cancel the restore until the program runs, and are forwarded to it after that.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, handledSignals()...)
	defer signal.Stop(signals)
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stream, err := client.Daemon.Restore(lasting)
	if err != nil {
		return api.FromStatus(err)
	}
	v.stream = stream
	// If Send fails, Recv returns the reason.
	_ = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{Begin: begin}})
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		v.forwardSignals(lasting, signals, cancel)
	}()
	err = v.follow(lasting)
	abandoned := errors.Is(context.Cause(lasting), errAbandoned)
	cancel(nil)
	<-forwarded
	switch {
	case abandoned && v.pid == 0:
		return fmt.Errorf(
			"%w: phosd undoes the restore, unless the program already runs (see pos_cli --status)",
			errAbandoned,
		)
	case v.pid == 0 && errors.Is(err, context.Canceled):
		return errors.New("cancelled: the image is as it was, and no process is left")
	}
	return err
}

// follower shows a restore's progress, then connects the program to the caller until it ends.
type follower struct {
	to     verb.Streams
	bar    *terminal.Bar
	ends   *terminal.Endpoints
	detach bool
	// asJSON is set if view is printed at the end, and nothing before.
	asJSON bool
	view   restoreView
	// running is closed when the program runs.
	running chan struct{}
	pid     uint32
	flow    *terminal.Flow
	// program identifies pid; tree is the id by which the next phosd knows the program.
	program proc.Identity
	tree    string

	mu sync.Mutex
	// stream is the current stream to phosd; client is its connection if redial made it.
	stream restoreClient
	client *api.Client
}

// forwardSignals sends signals to the program. Before the program runs, the first signal cancels
// the restore, and the second one abandons the wait for that.
func (v *follower) forwardSignals(ctx context.Context, signals <-chan os.Signal, abandon context.CancelCauseFunc) {
	cancelled := false
	for {
		select {
		case <-ctx.Done():
			return
		case got := <-signals:
			number, _ := got.(syscall.Signal) // always so on Linux
			command := &api.RestoreCommand{Command: &api.RestoreCommand_Signal{Signal: uint32(number)}}
			if v.started() && v.detach {
				abandon(errAbandoned)
				return
			}
			// Directly, if the caller may: phosd may have ended unnoticed.
			if v.started() && v.program.Check() == nil && syscall.Kill(int(v.pid), number) == nil {
				continue
			}
			if !v.started() {
				if cancelled {
					abandon(errAbandoned)
					return
				}
				cancelled = true
				v.bar.Say(cancelText)
				command = &api.RestoreCommand{Command: &api.RestoreCommand_Cancel{Cancel: &api.RestoreCancel{}}}
			}
			_ = v.currentStream().Send(command) // follow handles the end of the stream
		}
	}
}

// started reports whether the program runs, so that signals go to it.
func (v *follower) started() bool {
	select {
	case <-v.running:
		return true
	default:
		return false
	}
}

// follow reads events until the program ends, or, with --detach, until all its memory is loaded.
func (v *follower) follow(ctx context.Context) (err error) {
	defer func() {
		v.closeClient()
		v.bar.Clear()
		if v.flow != nil {
			err = errors.Join(err, v.flow.Stop())
		}
	}()
	for {
		event, err := v.currentStream().Recv()
		switch {
		case v.detach && v.started() && (err != nil || event.GetLoaded() != nil):
			return v.detached(ctx, err)
		case err != nil:
			if err = v.streamEnded(ctx, err); err != nil {
				return err
			}
		case event.GetRunning() != nil && v.pid == 0:
			if err := v.programStarted(event.GetRunning()); err != nil {
				return err
			}
		case event.GetEnded() != nil:
			return v.exit(syscall.WaitStatus(uint32(event.GetEnded().GetStatus())))
		case v.asJSON && event.GetNotice() != "":
			v.view.Notices = append(v.view.Notices, humanize.Printable(event.GetNotice()))
		case v.asJSON:
		case v.pid == 0:
			showRestore(v.bar, event)
		case event.GetNotice() != "":
			// The terminal may be in raw mode.
			fmt.Fprintf(v.to.Err, "\rpos_cli: %s\r\n", humanize.Printable(event.GetNotice()))
		}
	}
}

// detached ends the command while the program runs. err is what ended the stream.
func (v *follower) detached(ctx context.Context, err error) error {
	err = api.FromStatus(err)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, api.ErrNoDaemon) && ctx.Err() == nil {
		return err
	}
	// If phosd ended, the next one adopts the program, and loads what is left.
	if v.asJSON {
		return json.NewEncoder(v.to.Out).Encode(v.view)
	}
	return nil
}

// restoreView is what --restore --json prints. Scripts read it: fields may be added, never renamed
// or removed.
type restoreView struct {
	PID               uint32 `json:"pid"`
	Processes         uint64 `json:"processes"`
	TotalMicroseconds uint64 `json:"total_microseconds"`
	// Notices are what phosd wants the user to know.
	Notices []string `json:"notices"`
}

// programStarted records the program, lets signals reach it and connects its endpoints.
func (v *follower) programStarted(running *api.RestoreRunning) (err error) {
	v.pid, v.tree = running.GetPid(), running.GetTree()
	v.program, _ = proc.Of(int(v.pid)) // an ended program has no identity
	v.view.PID, v.view.Processes = v.pid, running.GetProcesses()
	v.view.TotalMicroseconds = running.GetTotalMicroseconds()
	v.bar.Clear()
	if !v.asJSON {
		v.bar.Say(
			fmt.Sprintf(
				"pid %d runs again (processes: %d), after %s",
				v.pid,
				running.GetProcesses(),
				humanize.Microseconds(running.GetTotalMicroseconds()),
			),
		)
	}
	close(v.running)
	if !v.detach {
		v.flow, err = v.ends.Start()
	}
	return err
}

// exit drains the program's output and returns its exit status as an error.
func (v *follower) exit(status syscall.WaitStatus) error {
	if v.flow != nil {
		flow := v.flow
		v.flow = nil
		if err := flow.Finish(); err != nil {
			return err
		}
	}
	switch {
	case status.Signaled():
		return &programEnded{128 + int(status.Signal())}
	case status.ExitStatus() != 0:
		return &programEnded{status.ExitStatus()}
	}
	return nil
}
