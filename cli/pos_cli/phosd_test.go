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

	"github.com/phos-gpu/phos/daemon/handover"
	"github.com/phos-gpu/phos/daemon/rpc"
)

// phosdForTest serves the daemon's API on a socket of its own, with files handed over as to the real one. What it does with a
// request is the test's to say.
type phosdForTest struct {
	rpc.UnimplementedDaemonServer
	desk *handover.Desk

	checkpoint func(begin *rpc.CheckpointBegin, files []*os.File, stream grpc.BidiStreamingServer[rpc.CheckpointCommand, rpc.CheckpointEvent]) error
	restore    func(begin *rpc.RestoreBegin, files []*os.File, stream grpc.BidiStreamingServer[rpc.RestoreCommand, rpc.RestoreEvent]) error
	preRestore func(request *rpc.PreRestoreRequest, files []*os.File, stream grpc.ServerStreamingServer[rpc.RestoreEvent]) error
	check      func(request *rpc.CheckImageRequest, files []*os.File) (*rpc.CheckImageReply, error)
	trace      func(request *rpc.TraceResourceRequest, files []*os.File) (*rpc.TraceReply, error)

	mu    sync.Mutex // guards taken
	taken []string   // names of directories that were handed over
}

// serve makes the environment name the server.
func (p *phosdForTest) serve(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "phosd.sock")
	t.Setenv(rpc.SocketVariable, path)
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	p.desk = handover.NewDesk(handover.Limits{Files: 16, Tokens: 4})
	server := grpc.NewServer(grpc.Creds(rpc.PeerCredentials{}), grpc.UnaryInterceptor(rpc.ServerErrors),
		grpc.StreamInterceptor(rpc.ServerStreamErrors))
	rpc.RegisterDaemonServer(server, p)
	served := make(chan error, 1)
	listener, err := handover.NewListener(socket, p.desk, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(<-served, p.desk.Close()); err != nil {
			t.Error(err)
		}
	})
}

func (p *phosdForTest) take(ctx context.Context, token []byte) ([]*os.File, error) {
	actor, err := rpc.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := p.desk.Take(token, actor)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, files[0].Name())
	return files, nil
}

func (p *phosdForTest) directories() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

func (p *phosdForTest) Checkpoint(stream grpc.BidiStreamingServer[rpc.CheckpointCommand, rpc.CheckpointEvent]) error {
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

func (p *phosdForTest) Restore(stream grpc.BidiStreamingServer[rpc.RestoreCommand, rpc.RestoreEvent]) error {
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

func (p *phosdForTest) PreRestore(request *rpc.PreRestoreRequest, stream grpc.ServerStreamingServer[rpc.RestoreEvent]) error {
	files, err := p.take(stream.Context(), request.GetFiles())
	if err != nil {
		return err
	}
	defer closeAll(files)
	return p.preRestore(request, files, stream)
}

func (p *phosdForTest) CheckImage(ctx context.Context, request *rpc.CheckImageRequest) (*rpc.CheckImageReply, error) {
	files, err := p.take(ctx, request.GetFiles())
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	return p.check(request, files)
}

func (p *phosdForTest) TraceResource(ctx context.Context, request *rpc.TraceResourceRequest) (*rpc.TraceReply, error) {
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
