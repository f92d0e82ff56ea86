package guard

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Holder is a process outside of the room that has had a GPU open since before Begin.
type Holder struct {
	proc.Identity
	Command string
	// Devices are the paths of the open devices.
	Devices []string
}

const commandBytes = 128

// watchHolders logs the processes that already have GPUs open, and waits for their end in the
// background. It kills none.
func (g *Guard) watchHolders() error {
	found, err := g.Holders()
	if err != nil {
		return err
	}
	for _, holder := range found {
		handle, err := proc.Open(holder.Identity)
		if err != nil {
			continue // it has ended
		}
		g.options.Log.Warn("GPU already open in another process (gpus.exclusive)",
			"pid", holder.PID, "command", holder.Command, "devices", holder.Devices)
		g.holders.add(holder)
		g.running.Go(func() {
			<-g.stop
			_ = handle.Close() // ends Wait
		})
		g.running.Go(func() {
			if err := handle.Wait(); err == nil {
				g.holders.remove(holder)
				g.options.Log.Info("process with an open GPU ended", "pid", holder.PID, "command", holder.Command)
			}
		})
	}
	return nil
}

// holders are the running holders.
type holders struct {
	mu  sync.Mutex // guards all
	all []Holder
}

func (h *holders) add(holder Holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, holder)
}

func (h *holders) remove(holder Holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = slices.DeleteFunc(h.all, func(each Holder) bool { return each.Identity == holder.Identity })
}

// Warnings names the running holders.
func (g *Guard) Warnings() (texts []string) {
	g.holders.mu.Lock()
	defer g.holders.mu.Unlock()
	for _, each := range g.holders.all {
		texts = append(texts, fmt.Sprintf("gpus.exclusive: pid %d (%s) has had %s open since before phosd started",
			each.PID, each.Command, strings.Join(each.Devices, ", ")))
	}
	return texts
}

// Holders lists the processes outside of the room that have guarded devices open.
func (g *Guard) Holders() ([]Holder, error) {
	g.mu.Lock()
	guarded := maps.Clone(g.guarded)
	g.mu.Unlock()
	inside, err := cgroup.Processes(g.room)
	if err != nil {
		return nil, err
	}
	pids, err := proc.All()
	if err != nil {
		return nil, err
	}
	var found []Holder
	for _, pid := range pids {
		if slices.Contains(inside, pid) {
			continue
		}
		id, err := proc.Of(pid)
		if err != nil {
			continue // it has ended
		}
		if devices := guarded.openIn(pid); len(devices) > 0 {
			found = append(found, Holder{id, id.Command(commandBytes), devices})
		}
	}
	return found, nil
}

// openIn lists the guarded devices that a process has open.
func (m majors) openIn(pid int) (devices []string) {
	numbers, _ := proc.Numbers(pid) // an error means that it has ended
	for _, number := range numbers {
		path := proc.File(pid, number)
		var stat unix.Statx_t
		// DONT_SYNC: a file server may never answer.
		if unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat) != nil {
			continue
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFCHR || m[stat.Rdev_major] == "" {
			continue
		}
		if name, err := os.Readlink(path); err == nil && !slices.Contains(devices, name) {
			devices = append(devices, name)
		}
	}
	return devices
}
