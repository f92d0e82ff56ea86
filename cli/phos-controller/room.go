package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/cli/readiness"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/serve"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/local"
	"github.com/phos-gpu/phos/cluster/members"
	"github.com/phos-gpu/phos/internal/ticks"
	"github.com/phos-gpu/phos/internal/words"
)

// A controller whose disk is full refuses new launches, and goes on for those that there are. If
// its store fails for lack of room, the controller gives it a reserve, and starts again. If that is
// used up, too, it refuses all requests until there is room.
const (
	// leastFree is how much must be free for new launches.
	leastFree = 64 << 20
	// reserveBytes is the size of the reserve: the next log of the store, and some records.
	reserveBytes = 96 << 20
	// startBytes is how much must be free for the store to start.
	startBytes = 80 << 20
	// reserveName is the file in the state directory that keeps the reserve.
	reserveName = "reserve"
)

// freeBytes returns how much of a directory's disk is free.
func freeBytes(dir string) (uint64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}

// room returns an error while the store or the disk has no room for new launches. A reserve that
// was used up is made again first.
func (k *controller) room() error {
	if k.full != nil && k.full() {
		return fmt.Errorf("%w: the store of controller %s has reached its limit (store.quota_mib = %d), and makes room "+
			"if it can: otherwise set a larger one, or a shorter launches.keep, and restart it; what runs goes on",
			api.ErrRefused, k.name, k.config.Store.QuotaMiB)
	}
	k.keepReserve()
	want := uint64(leastFree)
	if _, err := os.Stat(k.reservePath()); err != nil {
		want += reserveBytes
	}
	free, err := freeBytes(k.config.Controller.StateDir)
	if err != nil || free >= want {
		return nil
	}
	return fmt.Errorf("%w: %s; what runs goes on", api.ErrRefused, k.shortage(free, want))
}

// shortage says that the disk is full, and what to do.
func (k *controller) shortage(free, want uint64) string {
	return fmt.Sprintf("the disk of controller %s is full: %s has %s left; free at least %s there",
		k.name, k.config.Controller.StateDir, words.Bytes(free), words.Bytes(want))
}

// reservePath returns where the reserve is.
func (k *controller) reservePath() string {
	return filepath.Join(k.config.Controller.StateDir, reserveName)
}

// keepReserve makes the reserve if there is none, and the disk has room for it.
func (k *controller) keepReserve() {
	free, err := freeBytes(k.config.Controller.StateDir)
	if err != nil || free < reserveBytes+leastFree {
		return
	}
	file, err := os.OpenFile(k.reservePath(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return // it is there, in most cases
	}
	if err := errors.Join(unix.Fallocate(int(file.Fd()), 0, 0, reserveBytes), file.Close()); err != nil {
		k.log.Warn("no reserve for a full disk", "error", err)
		_ = os.Remove(k.reservePath()) // or it is smaller than it could be
	}
}

// startAgain waits until the store can be started again, with its reserve or with other room, and
// then makes this process a new controller: a store that has failed cannot be started in the same
// one. cause is why it has failed.
func (k *controller) startAgain(ctx context.Context, cause error) error {
	k.log.Error("store stopped", "error", cause)
	if err := os.Remove(k.reservePath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		k.log.Error("the reserve stays", "error", err)
	}
	if err := k.awaitRoom(ctx); err != nil {
		return err
	}
	if err := ticks.Pause(ctx, roomEvery); err != nil { // what has failed at once fails again
		return err
	}
	k.log.Info("starting again")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	arguments := slices.DeleteFunc(slices.Clone(os.Args), func(a string) bool {
		return strings.HasPrefix(strings.TrimLeft(a, "-"), "ready-fd=") // it has got its line
	})
	return fmt.Errorf("start %s again: %w", self, syscall.Exec(self, arguments, os.Environ()))
}

// roomEvery is how often the disk is looked at.
const roomEvery = time.Second

// awaitRoom waits until the store can start, and refuses all requests until then.
func (k *controller) awaitRoom(ctx context.Context) error {
	free, err := freeBytes(k.config.Controller.StateDir)
	if err != nil || free >= startBytes {
		return err
	}
	stop, err := k.refuse()
	if err != nil {
		return err
	}
	defer stop()
	readiness.FindSupervisor(k.log).Ready("waiting for room on the disk; launches go on")
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for err == nil && free < startBytes {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		free, err = freeBytes(k.config.Controller.StateDir)
	}
	return err
}

// refuse answers requests by saying that the disk is full, until stop is called. Nodes and people
// on the network are answered only if the certificate for that is known: it is in the store.
func (k *controller) refuse() (stop func(), err error) {
	refusal := grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		stream.SetTrailer(metadata.Pairs(api.LeaderKey, "")) // another controller may lead
		free, _ := freeBytes(k.config.Controller.StateDir)   // 0 is near enough
		return status.Error(codes.Unavailable, k.shortage(free, startBytes))
	})
	var servers []*grpc.Server
	stop = func() {
		for _, s := range servers {
			s.Stop()
		}
	}
	start := func(listener net.Listener, creds credentials.TransportCredentials) {
		server := grpc.NewServer(append(serve.ServerOptions(k.log), refusal, grpc.Creds(creds))...)
		servers = append(servers, server)
		go func() { _ = server.Serve(listener) }() // it ends with stop
	}
	socket, err := k.listenSocket()
	if err != nil {
		return nil, err
	}
	start(socket, members.LocalCredentials(local.Rules{AllowRoot: true}))
	if k.holder == nil {
		return stop, nil
	}
	network, err := net.Listen("tcp", k.config.Controller.Listen)
	if err != nil {
		stop()
		return nil, fmt.Errorf("listen for nodes: %w", err)
	}
	start(network, credentials.NewTLS(channel.Server(k.holder, time.Now)))
	return stop, nil
}
