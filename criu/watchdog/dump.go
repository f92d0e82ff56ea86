package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/checkpoint-restore/go-criu/v7/rpc"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/criu/hardlink"
	"github.com/phos-gpu/phos/criu/orphans"
	"github.com/phos-gpu/phos/criu/repair"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// maxGhostBytes is the largest size of a file without a name that is saved.
const maxGhostBytes = 1 << 30

// dump runs CRIU for a dump, or continues the one that Prestart started.
func (w *watchdog) dump(ctx context.Context, order Dump, files []*os.File) error {
	if w.group == nil || len(files) != 1 {
		return fmt.Errorf("dump: %w", ErrOrder)
	}
	if !w.group.Frozen() {
		return fmt.Errorf("dump: %w: the tree is not frozen", ErrOrder)
	}
	if order.User.UID != 0 {
		if err := w.group.Allow(order.User.UID); err != nil {
			return fmt.Errorf("dump: %w", err)
		}
	}
	ctx, cancel := context.WithDeadline(ctx, order.Deadline)
	defer cancel()
	root, err := rootdir.Of(w.root)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	defer root.Close()
	second, err := hardlink.Create(fsuid.Rights(order.User), root, order.Links)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	before, err := w.snapshot()
	if err != nil {
		return errors.Join(fmt.Errorf("dump: %w", err), second.Remove())
	}
	// If it cannot be stored, the tree is not saved from a kill of this process.
	_ = before.Store(w.group.Path)
	if first := w.takePrestarted(order); first != nil {
		err = first.run(ctx)
	} else {
		err = w.run(ctx, runner.Request{Images: files[0], Inside: always}, order)
	}
	return errors.Join(w.refreeze(err, before), w.forget(), second.Remove())
}

// forget removes the stored snapshot: the tree is whole again.
func (w *watchdog) forget() error {
	if w.group == nil {
		return nil
	}
	return repair.Forget(w.group.Path)
}

// always reports that CRIU may be inside processes from the start.
func always() bool { return true }

// run runs CRIU for a dump.
func (w *watchdog) run(ctx context.Context, request runner.Request, order Dump) error {
	namespaces, err := namespaces(w.root, order.Namespaces)
	if err != nil {
		return err
	}
	defer fdpass.Close(namespaces)
	group, err := os.Open(w.group.Path)
	if err != nil {
		return err
	}
	defer group.Close()
	options := w.options(order)
	if len(namespaces) > 0 {
		// In a container the cgroup's path may not exist.
		options.FreezeCgroup = proto.String(proc.OwnFile(int(runner.Descriptor(0))))
	}
	request.Program, request.User = order.Program, order.User
	request.Type, request.Options = rpc.CriuReqType_DUMP, options
	request.Namespaces, request.Inherited = namespaces, []*os.File{group}
	_, err = runner.Run(ctx, request)
	return err
}

// options returns CRIU's options for a dump of a frozen tree.
func (w *watchdog) options(order Dump) *rpc.CriuOpts {
	options := &rpc.CriuOpts{
		Pid: proto.Int32(int32(order.Root)),
		// The processes stay frozen. phosd decides later whether they are resumed or killed.
		LeaveRunning: proto.Bool(true),
		FreezeCgroup: proto.String(w.group.Path),
		Timeout:      proto.Uint32(secondsLeft(order.Deadline)),
		External:     order.External,
		ShellJob:     proto.Bool(order.ShellJob),
		FileLocks:    proto.Bool(true),
		GhostLimit:   proto.Uint32(maxGhostBytes),
		// The tree is restored into the cgroup of the restore's caller.
		ManageCgroupsMode: rpc.CriuCgMode_IGNORE.Enum(),
		TcpEstablished:    proto.Bool(order.Connected),
		ExtUnixSk:         proto.Bool(order.Datagrams),
		// Only connections inside the tree are saved, and both of their ends are frozen.
		NetworkLock: rpc.CriuNetworkLockMethod_SKIP.Enum(),
	}
	if order.Earlier != "" {
		options.TrackMem, options.ParentImg = proto.Bool(!order.Tracked), proto.String(order.Earlier)
	}
	if order.Tracked {
		runner.TrackWritten(options)
	}
	return options
}

// namespaces opens the given kinds of namespaces of the tree.
func namespaces(root proc.Identity, kinds []string) (files []*os.File, err error) {
	for _, kind := range kinds {
		file, err := proc.OpenNamespace(root.PID, kind)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// snapshot captures the tree's state before CRIU runs.
func (w *watchdog) snapshot() (*repair.Snapshot, error) {
	pids, err := w.group.Processes()
	if err != nil {
		return nil, err
	}
	return repair.Take(pids)
}

// refreeze freezes the tree again after CRIU has ended.
func (w *watchdog) refreeze(failure error, before *repair.Snapshot) error {
	ctx, cancel := context.WithTimeout(context.Background(), refreezeTime)
	defer cancel()
	if errors.Is(failure, runner.ErrAborted) {
		// Its children may still be working.
		failure = errors.Join(failure, orphans.EndSession(w.self), w.repair(ctx, before))
	}
	if w.group == nil || w.group.Frozen() {
		return failure
	}
	return errors.Join(failure, w.group.Stop(ctx))
}
