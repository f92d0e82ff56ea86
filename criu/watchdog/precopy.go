package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/checkpoint-restore/go-criu/v7/rpc"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/criu/orphans"
	"github.com/phos-gpu/phos/criu/repair"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// precopy runs CRIU to dump the memory of a running tree. CRIU stops each process for a moment, by
// ptrace, and writes its pages after resuming it.
func (w *watchdog) precopy(ctx context.Context, order Precopy, files []*os.File) error {
	if w.group != nil || len(files) != 1 {
		return fmt.Errorf("precopy: %w", ErrOrder)
	}
	ctx, cancel := context.WithDeadline(ctx, order.Deadline)
	defer cancel()
	spaces, err := namespaces(order.Tree, order.Namespaces)
	if err != nil {
		return fmt.Errorf("precopy: %w", err)
	}
	defer fdpass.Close(spaces)
	before, err := snapshotRunning(order)
	if err != nil {
		return fmt.Errorf("precopy: %w", err)
	}
	_, err = runner.Run(ctx, runner.Request{
		Program: order.Program, User: order.User, Type: rpc.CriuReqType_SINGLE_PRE_DUMP, Images: files[0],
		Namespaces: spaces,
		Inside:     always,
		Options: &rpc.CriuOpts{
			Pid: proto.Int32(int32(order.Root)), TrackMem: proto.Bool(true),
			Timeout: proto.Uint32(secondsLeft(order.Deadline)),
		},
	})
	if !errors.Is(err, runner.ErrAborted) {
		return err
	}
	return errors.Join(err, w.repairRunning(order, before))
}

// snapshotRunning captures the state of a running tree.
func snapshotRunning(order Precopy) (*repair.Snapshot, error) {
	tree, err := proc.Tree(order.Tree)
	if err != nil {
		return nil, err
	}
	pids := make([]int, len(tree))
	for i, stat := range tree {
		pids[i] = stat.PID
	}
	return repair.Take(pids)
}

// repairRunning repairs a tree that was running. For that it freezes the tree once.
func (w *watchdog) repairRunning(order Precopy, before *repair.Snapshot) error {
	ctx, cancel := context.WithTimeout(context.Background(), refreezeTime)
	defer cancel()
	failure := orphans.EndSession(w.self)
	group, err := freezer.Freeze(ctx, order.Tree, cgroup.Name(groupKind, w.self))
	if err != nil {
		return errors.Join(failure, err)
	}
	w.group, w.root = group, order.Tree
	return errors.Join(failure, w.repair(ctx, before), w.undo())
}
