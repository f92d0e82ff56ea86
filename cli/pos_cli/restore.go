package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/imagecmd"
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
	Summary:   "bring a checkpointed program back",
	About: `Brings a program back as it was when it was saved. It runs again before all its memory is back; --eager loads
everything first.

Without --detach, pos_cli stands between the program and this terminal, or the files that pos_cli has as standard input, output
and error; passes SIGINT, SIGTERM and SIGHUP on, but for those that it was started to ignore, as by nohup; and ends with the
program's exit status (128 + n for signal n). It stays when phosd ends, and asks the next one.
With --detach it returns once the program runs, and what the program writes to a terminal or a pipe goes to the log of phosd.

A pid of the program that is taken by now stands in the way. --new-pids brings the program back in a pid namespace of its own;
so one image can be restored several times at once. Such programs have a /dev/shm of their own; a file that two of them
write is written by both.

Called inside of a container, into which phosd's runtime directory is mounted, pos_cli takes --pid as the container counts, and
a program comes back in that container.

    pos_cli --restore --dir /data/ckpt
    pos_cli --restore --dir /data/ckpt --generation 3 --detach --new-pids

With --dir - the image is read from standard input, where --dump --dir - has written it; the program's own input is empty then.

Ctrl-C before the program runs gives up: no process is left, and the image stays as it is.`,
	Prepare: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		options := restoreOptions{standard: terminal.Standard{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}}
		flags.StringVar(&options.dir, "dir", "", "`DIR` of the image")
		flags.Uint64Var(&options.generation, "generation", 0, "the `N`th generation; 0: the newest")
		flags.BoolVar(&options.detach, "detach", false, "return once the program runs")
		flags.BoolVar(&options.newPIDs, "new-pids", false, "give the program a pid namespace of its own")
		flags.BoolVar(&options.eager, "eager", false, "load all memory before the program runs")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if options.dir == "" {
				return &verb.UsageError{Text: "name the image's directory: --dir DIR"}
			}
			return restore(ctx, to, options)
		}
	},
}

type restoreOptions struct {
	dir                    string
	generation             uint64
	detach, newPIDs, eager bool
	standard               terminal.Standard
}

// programEnded is the end of a restored program that did not end with status 0; it has said why
// itself.
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
		Files: token, Generation: manifest.Generation, Stream: options.dir == pipe.Dir, Eager: options.eager, Detach: options.detach, NewPids: options.newPIDs, Endpoints: ids,
	}
	return followRestore(ctx, to, client, begin, ends)
}

// open opens the image, and reads its manifest: of the newest generation now, because a newer one
// may come meanwhile.
func (o *restoreOptions) open() (*os.File, *image.Manifest, error) {
	if o.dir == pipe.Dir {
		if o.generation != 0 {
			return nil, nil, &verb.UsageError{Text: "a stream has one generation"}
		}
		manifest, stream, err := pipe.In(o.standard.In)
		if err != nil {
			return nil, nil, fmt.Errorf("image from standard input: %w", err)
		}
		o.standard.In, err = os.Open(os.DevNull) // the program's own input is none of it
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
	signed, err := opened.Manifest(o.generation)
	if err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	// The seal is for phosd to judge, which has the keys.
	manifest, _, err := image.Inspect(signed)
	if err != nil {
		return nil, nil, errors.Join(
			fmt.Errorf("image %s: %w; another generation may be whole (--generation N): pos_cli image verify %s",
				opened.ManifestPath(o.generation), err, o.dir),
			dir.Close(),
		)
	}
	return dir, manifest, nil
}

// ends are those that the image asks for.
func (o *restoreOptions) ends(manifest *image.Manifest) (*terminal.Endpoints, error) {
	described := manifest.Endpoints
	if o.detach {
		described = nil
	}
	return terminal.NewEndpoints(described, o.standard)
}

// followRestore brings the program back and stays with it.
func followRestore(
	ctx context.Context,
	to verb.Streams,
	client *api.Client,
	begin *api.RestoreBegin,
	ends *terminal.Endpoints,
) error {
	// Signals end the attempt as long as nothing runs, and are the program's from then on.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, handledSignals()...)
	defer signal.Stop(signals)
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stream, err := client.Daemon.Restore(lasting)
	if err != nil {
		return api.FromStatus(err)
	}
	v := &follower{
		to:      to,
		bar:     terminal.NewBar(to.Err),
		ends:    ends,
		detach:  begin.GetDetach(),
		running: make(chan struct{}),
		stream:  stream,
	}
	// A failure to send is told, with its reason, by what is received.
	_ = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{Begin: begin}})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		v.forwardSignals(lasting, signals, cancel)
	}()
	err = v.follow(lasting)
	left := errors.Is(context.Cause(lasting), errAbandoned)
	cancel(nil)
	<-passed
	switch {
	case left && v.pid == 0:
		return fmt.Errorf(
			"%w: phosd takes the restore back, unless the program ran again at that moment (see pos_cli --status)",
			errAbandoned,
		)
	case v.pid == 0 && errors.Is(err, context.Canceled):
		return errors.New("cancelled: the image is as it was, and no process is left")
	}
	return err
}

// follower is the time that pos_cli spends with a restored program.
type follower struct {
	to     verb.Streams
	bar    *terminal.Bar
	ends   *terminal.Endpoints
	detach bool
	// running is closed when the program runs.
	running chan struct{}
	pid     uint32
	flow    *terminal.Flow
	// program is what pid means, tree the name by which the next phosd knows it.
	program proc.Identity
	tree    string

	mu sync.Mutex
	// stream is the conversation with phosd, client what it goes through where that is another phosd
	// than the first.
	stream restoreClient
	client *api.Client
}

// forwardSignals hands signals on to the program. One that comes before it runs gives up, a second one does
// not wait for that.
func (v *follower) forwardSignals(ctx context.Context, signals <-chan os.Signal, leave context.CancelCauseFunc) {
	unwanted := false
	for {
		select {
		case <-ctx.Done():
			return
		case got := <-signals:
			number, _ := got.(syscall.Signal) // all of this system's are
			command := &api.RestoreCommand{Command: &api.RestoreCommand_Signal{Signal: uint32(number)}}
			// Straight, where the caller may: phosd may have ended, and nobody have noticed yet.
			if v.started() && v.program.Check() == nil && syscall.Kill(int(v.pid), number) == nil {
				continue
			}
			if !v.started() {
				if unwanted {
					leave(errAbandoned)
					return
				}
				unwanted = true
				v.bar.Say(cancelText)
				command = &api.RestoreCommand{Command: &api.RestoreCommand_Cancel{Cancel: &api.RestoreCancel{}}}
			}
			_ = v.currentStream().Send(command) // follow knows why the stream has ended
		}
	}
}

func (v *follower) started() bool {
	select {
	case <-v.running:
		return true
	default:
		return false
	}
}

// follow reads events up to the end of the program, or, detached, to its beginning.
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
		case err != nil:
			if err = v.streamEnded(ctx, err); err != nil {
				return err
			}
		case event.GetRunning() != nil && v.pid == 0:
			if err := v.programStarted(event.GetRunning()); err != nil || v.detach {
				return err
			}
		case event.GetEnded() != nil:
			return v.exit(syscall.WaitStatus(uint32(event.GetEnded().GetStatus())))
		case v.pid == 0:
			showRestore(v.bar, event)
		case event.GetNotice() != "":
			// The terminal may be in raw mode.
			fmt.Fprintf(v.to.Err, "\rpos_cli: %s\r\n", event.GetNotice())
		}
	}
}

func (v *follower) programStarted(running *api.RestoreRunning) (err error) {
	v.pid, v.tree = running.GetPid(), running.GetTree()
	v.program, _ = proc.Of(int(v.pid)) // one that has ended already is nobody
	v.bar.Say(
		fmt.Sprintf(
			"pid %d runs again (processes: %d), after %s",
			v.pid,
			running.GetProcesses(),
			humanize.Microseconds(running.GetTotalMicroseconds()),
		),
	)
	close(v.running)
	if !v.detach {
		v.flow, err = v.ends.Start()
	}
	return err
}

// exit waits for the last words of the program.
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
