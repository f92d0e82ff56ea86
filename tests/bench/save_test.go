package bench

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// checkpointOptions are the options of a checkpoint.
type checkpointOptions struct {
	stopTheWorld bool
	budgetBytes  uint64
}

// checkpoint saves the program into a directory.
func (h *holder) checkpoint(dir string, options checkpointOptions) *api.CheckpointDone {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	client, err := api.Dial(h.daemon.Socket)
	if err != nil {
		h.t.Fatal(err)
	}
	defer client.Close()
	directory, err := os.Open(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	defer directory.Close()
	token, err := fdtoken.Send(ctx, h.daemon.Socket, []*os.File{directory})
	if err != nil {
		h.t.Fatal(err)
	}
	stream, err := client.Daemon.Checkpoint(ctx)
	if err != nil {
		h.t.Fatal(api.FromStatus(err))
	}
	err = stream.Send(&api.CheckpointCommand{Command: &api.CheckpointCommand_Begin{Begin: &api.CheckpointBegin{
		Pids: []uint32{uint32(h.PID)}, Files: token, StopTheWorld: options.stopTheWorld, BudgetBytes: options.budgetBytes,
	}}})
	if err != nil {
		h.t.Log(err) // the reply has the better error
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			h.t.Fatalf("save: %v", api.FromStatus(err))
		}
		if done := event.GetDone(); done != nil {
			return done
		}
	}
}

// seconds converts a number of microseconds.
func seconds(microseconds uint64) float64 { return float64(microseconds) / 1e6 }

// replaceByCopy returns how long cp takes for all packs of an image, to the same place, and how
// long until they are on the disk. The packs come from memory. The better of two runs counts,
// because the first may have to wait for free memory.
func (b *bench) replaceByCopy(t *testing.T, dir string) (copied, synced float64) {
	t.Helper()
	packs, aside := filepath.Join(dir, "packs"), filepath.Join(b.memory, "copy")
	defer os.RemoveAll(aside)
	copyTree(t, packs, aside)
	copied, synced = math.Inf(1), math.Inf(1)
	for range 2 {
		remove(t, packs)
		start := time.Now()
		copyTree(t, aside, packs)
		copied = min(copied, time.Since(start).Seconds())
		settle(t, dir)
		synced = min(synced, time.Since(start).Seconds())
	}
	return copied, synced
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if output, err := exec.Command("cp", "-r", "--reflink=never", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, output)
	}
}

// reuseSpace writes and removes a file, so that the next image gets disk space that was used
// before.
func (b *bench) reuseSpace(t *testing.T, place string, bytes uint64) {
	t.Helper()
	path := filepath.Join(place, "recycled")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	piece := slices.Repeat([]byte("phos"), mebibyte/4)
	for range bytes / mebibyte * 5 / 4 {
		if _, err := file.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, place)
	remove(t, path)
}

// settle waits until written data is on the disk.
func settle(t *testing.T, dir string) {
	t.Helper()
	if err := syncDisk(dir); err != nil {
		t.Fatal(err)
	}
}

func syncDisk(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Syncfs(int(file.Fd()))
}

// remove deletes an image, and waits until this is on the disk.
func remove(t *testing.T, dir string) {
	t.Helper()
	parent := filepath.Dir(dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	settle(t, parent)
}
