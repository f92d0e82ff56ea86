package main

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

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// fakePhosd serves the daemon's API on a socket of its own, and receives handed-off files as phosd
// does. The test sets the handlers.
type fakePhosd struct {
	api.UnimplementedDaemonServer
	tokens *fdtoken.Store

	checkpoint func(begin *api.CheckpointBegin, files []*os.File,
		stream grpc.BidiStreamingServer[api.CheckpointCommand, api.CheckpointEvent]) error
	restore func(begin *api.RestoreBegin, files []*os.File,
		stream grpc.BidiStreamingServer[api.RestoreCommand, api.RestoreEvent]) error
	preRestore func(request *api.PreRestoreRequest, files []*os.File,
		stream grpc.ServerStreamingServer[api.RestoreEvent]) error
	check func(request *api.CheckImageRequest, files []*os.File) (*api.CheckImageReply, error)
	trace func(request *api.TraceResourceRequest, files []*os.File) (*api.TraceReply, error)

	mu    sync.Mutex // guards taken
	taken []string   // names of the directories that were handed off
}

// serve starts the server and sets the environment to its socket.
func (p *fakePhosd) serve(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "phosd.sock")
	t.Setenv(api.SocketVariable, path)
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	p.tokens = fdtoken.NewStore(fdtoken.Limits{Files: 16, Tokens: 4})
	server := grpc.NewServer(grpc.Creds(api.PeerCredentials{}), grpc.UnaryInterceptor(api.ServerErrors),
		grpc.StreamInterceptor(api.ServerStreamErrors))
	api.RegisterDaemonServer(server, p)
	served := make(chan error, 1)
	listener, err := fdtoken.NewListener(socket, p.tokens, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(<-served, p.tokens.Close()); err != nil {
			t.Error(err)
		}
	})
}

func (p *fakePhosd) take(ctx context.Context, token []byte) ([]*os.File, error) {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := p.tokens.Take(token, caller)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, files[0].Name())
	return files, nil
}

func (p *fakePhosd) directories() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

func (p *fakePhosd) Checkpoint(stream grpc.BidiStreamingServer[api.CheckpointCommand, api.CheckpointEvent]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	files, err := p.take(stream.Context(), first.GetBegin().GetFiles())
	if err != nil {
		return err
	}
	defer closeAll(files)
	return p.checkpoint(first.GetBegin(), files, stream)
}

func (p *fakePhosd) Restore(stream grpc.BidiStreamingServer[api.RestoreCommand, api.RestoreEvent]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	files, err := p.take(stream.Context(), first.GetBegin().GetFiles())
	if err != nil {
		return err
	}
	defer closeAll(files)
	return p.restore(first.GetBegin(), files, stream)
}

func (p *fakePhosd) PreRestore(
	request *api.PreRestoreRequest,
	stream grpc.ServerStreamingServer[api.RestoreEvent],
) error {
	files, err := p.take(stream.Context(), request.GetFiles())
	if err != nil {
		return err
	}
	defer closeAll(files)
	return p.preRestore(request, files, stream)
}

func (p *fakePhosd) CheckImage(ctx context.Context, request *api.CheckImageRequest) (*api.CheckImageReply, error) {
	files, err := p.take(ctx, request.GetFiles())
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	return p.check(request, files)
}

func (p *fakePhosd) TraceResource(ctx context.Context, request *api.TraceResourceRequest) (*api.TraceReply, error) {
	if !request.GetStart() {
		return p.trace(request, nil)
	}
	files, err := p.take(ctx, request.GetFiles())
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	return p.trace(request, files)
}

func closeAll[T io.Closer](files []T) {
	for _, file := range files {
		_ = file.Close()
	}
}
