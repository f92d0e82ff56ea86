package saver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// RestoreMain is the main function of a restore. The arguments are those after the role. It ends as
// the root of the restored tree does.
func RestoreMain(arguments []string) int {
	var order RestoreOrder
	if len(arguments) != 1 || json.Unmarshal([]byte(arguments[0]), &order) != nil {
		fmt.Fprintln(os.Stderr, "supervisors start restores, with an order as the argument")
		return 2
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	status, err := restore(context.Background(), order, signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "phos:", err)
		return 1
	}
	return endAs(status)
}

// restore restores a tree and follows it to its end.
func restore(ctx context.Context, order RestoreOrder, signals <-chan os.Signal) (unix.WaitStatus, error) {
	f := &follower{socket: order.Socket, signals: signals}
	defer f.close()
	began := time.Now()
	running, err := f.begin(ctx, order)
	told := Restored{Took: time.Since(began)}
	if err == nil {
		told.Root, err = proc.Of(int(running.GetPid()))
	}
	if err != nil {
		err = fmt.Errorf("restore generation %d of %s: %w", order.Generation, order.Dir, err)
		told.Error = err.Error()
	}
	if err := tell(order.Tell, told); err != nil {
		return 0, err
	}
	if err != nil {
		return 0, err
	}
	f.tree, f.root = running.GetTree(), told.Root
	return f.follow(ctx)
}

// tell writes what the agent reads.
func tell(path string, told Restored) error {
	text, err := json.Marshal(told)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// begin asks phosd for the restore, and waits until the tree runs. SIGTERM cancels it.
func (f *follower) begin(ctx context.Context, order RestoreOrder) (*api.RestoreRunning, error) {
	dir, err := os.OpenFile(order.Dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("image directory: %w", err)
	}
	defer dir.Close()
	begin := &api.RestoreBegin{Generation: order.Generation, Gpus: order.GPUs, HadGpus: order.Had}
	files, err := replacements(dir, begin, order.Inherited)
	if err != nil {
		return nil, err
	}
	if err := f.dial(ctx); err != nil {
		return nil, err
	}
	if begin.NewPids, err = f.wantsNewPids(ctx, dir, begin); err != nil {
		return nil, err
	}
	if begin.Files, err = fdtoken.Send(ctx, f.socket, append([]*os.File{dir}, files...)); err != nil {
		return nil, err
	}
	// If it fails, Recv returns the reason.
	_ = f.stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{Begin: begin}})
	return f.awaitRunning()
}

// replacements returns what takes the place of the pipes to which the root of the saved tree has
// written: those of this process.
func replacements(dir *os.File, begin *api.RestoreBegin, inherited []int) (files []*os.File, err error) {
	opened, err := store.Open(dir)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	manifest, err := opened.Inspect(begin.Generation) // phosd checks its seal
	if err != nil {
		return nil, err
	}
	begin.Generation = manifest.Generation
	if len(manifest.Processes) == 0 {
		return nil, nil // phosd says what is wrong with it
	}
	ours := map[int]*os.File{1: os.Stdout, 2: os.Stderr}
	for _, number := range inherited {
		ours[number] = os.NewFile(uintptr(number), "inherited")
	}
	for i := range manifest.Endpoints {
		end := &manifest.Endpoints[i]
		if file := ours[end.NumberIn(&manifest.Processes[0])]; file != nil && end.Kind == "pipe-write" {
			files, begin.Endpoints = append(files, file), append(begin.Endpoints, end.ID)
		}
	}
	return files, nil
}

// wantsNewPids reports whether the tree needs a pid namespace of its own, because others have its
// pids here.
func (f *follower) wantsNewPids(ctx context.Context, dir *os.File, begin *api.RestoreBegin) (bool, error) {
	for _, newPids := range []bool{false, true} {
		token, err := fdtoken.Send(ctx, f.socket, []*os.File{dir})
		if err != nil {
			return false, err
		}
		reply, err := f.client.Daemon.CheckImage(ctx, &api.CheckImageRequest{
			Files: token, Generation: begin.GetGeneration(), NewPids: newPids, Gpus: begin.GetGpus(), HadGpus: begin.GetHadGpus(),
		})
		if err != nil {
			return false, api.FromStatus(err)
		}
		if !hinders(reply.GetObstacles()) {
			return newPids, nil
		}
	}
	return false, nil // the restore says why
}

// hinders reports whether an obstacle prevents a restore.
func hinders(obstacles []*api.Obstacle) bool {
	for _, each := range obstacles {
		if !each.GetHarmless() {
			return true
		}
	}
	return false
}
