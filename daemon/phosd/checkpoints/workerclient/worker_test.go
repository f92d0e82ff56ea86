package workerclient

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// scripted is a worker at a real socket, with the answers of a test.
type scripted struct {
	api.UnimplementedWorkerServer
	store *fdtoken.Store
	// answer sends the events after a command. If it returns an error, the stream ends.
	answer func(name string, send func(*api.SaveEvent)) error
	// restored implements Restored.
	restored func(stream grpc.ServerStreamingServer[api.RestoredEvent]) error

	mu    sync.Mutex // guards all below
	heard []string
	files []string
}

// serve starts the worker and returns its Device.
func (w *scripted) serve(t *testing.T) (*Device, Session) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	w.store = fdtoken.NewStore(fdtoken.Limits{Files: 8, Tokens: 2})
	server := grpc.NewServer(
		grpc.Creds(api.PeerCredentials{}),
		grpc.UnaryInterceptor(api.ServerErrors),
		grpc.StreamInterceptor(api.ServerStreamErrors),
	)
	api.RegisterWorkerServer(server, w)
	served, err := fdtoken.NewListener(listener, w.store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(served) }()
	t.Cleanup(server.Stop)
	conn, err := api.DialWorker(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	session := Session{
		Worker:  conn.Worker,
		Control: path,
		Program: identity(t).Identity,
		Half:    image.GPUHalf{Session: 3, Job: "train"},
		Explain: explain,
	}
	return New(session), session
}

func nameOf(command *api.SaveCommand) string {
	switch command.GetCommand().(type) {
	case *api.SaveCommand_Begin:
		return "begin"
	case *api.SaveCommand_Quiesce:
		return "quiesce"
	case *api.SaveCommand_Cut:
		return "cut"
	case *api.SaveCommand_Resume:
		return "resume"
	}
	return "finish"
}

func (w *scripted) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, what)
}

// Checkpoint answers each command.
func (w *scripted) Checkpoint(stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]) error {
	for {
		command, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			w.note("end")
			return nil
		}
		if err != nil {
			w.note("cancelled")
			return err
		}
		if begin := command.GetBegin(); begin != nil {
			if err := w.take(stream.Context(), begin.GetFiles()); err != nil {
				return err
			}
		}
		w.note(nameOf(command))
		if err := w.answer(nameOf(command), func(event *api.SaveEvent) { _ = stream.Send(event) }); err != nil {
			return err
		}
	}
}

func (w *scripted) take(ctx context.Context, token []byte) error {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return err
	}
	files, err := w.store.Take(token, caller)
	for _, file := range files {
		text, _ := io.ReadAll(file)
		w.files = append(w.files, string(text))
		_ = file.Close()
	}
	return err
}

func (w *scripted) Restored(_ *api.RestoredRequest, stream grpc.ServerStreamingServer[api.RestoredEvent]) error {
	return w.restored(stream)
}

func (w *scripted) Attach(ctx context.Context, request *api.AttachRequest) (*api.AttachReply, error) {
	w.note("attach")
	if request.GetPid() != uint32(os.Getpid()) {
		return nil, errors.New("another program")
	}
	return &api.AttachReply{}, w.take(ctx, request.GetFiles())
}

func done(result *api.SaveResult) *api.SaveEvent {
	return &api.SaveEvent{Event: &api.SaveEvent_Done{Done: &api.SaveDone{Result: result}}}
}

func busy(why string) *api.SaveEvent {
	return &api.SaveEvent{Event: &api.SaveEvent_Done{Done: &api.SaveDone{Busy: why}}}
}

// packs makes files for Begin.
func packs(t *testing.T, contents ...string) (files []*os.File) {
	t.Helper()
	for _, content := range contents {
		path := filepath.Join(t.TempDir(), "pack")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		files = append(files, file)
	}
	return files
}

// identity opens this process.
func identity(t *testing.T) *proc.Handle {
	t.Helper()
	handle, err := proc.OpenPID(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = handle.Close() })
	return handle
}

// all runs a whole checkpoint, up to the first command that fails.
func all(ctx context.Context, d *Device, files []*os.File, options ckpt.GPUOptions) (half image.GPUHalf, err error) {
	for _, command := range []func() error{
		func() error { return d.Begin(ctx, files, options) },
		func() error { return d.Quiesce(ctx, ckpt.Drain{Deadline: time.Minute}) },
		func() error { return d.Cut(ctx, time.Minute) },
		func() error { return d.Resume(ctx) },
	} {
		if err := command(); err != nil {
			return half, err
		}
	}
	return d.Finish(ctx)
}
