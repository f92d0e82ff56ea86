package phosd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/workerclient"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// devicesOf finds the sessions of all processes of trees.
func (d *Daemon) devicesOf(trees []*ckpt.Tree) ([]ckpt.Device, error) {
	var devices []ckpt.Device
	for _, tree := range trees {
		for _, p := range tree.Processes {
			sessions := d.table.of(p.Identity)
			if len(sessions) == 0 && slices.ContainsFunc(p.Mapped, shared.MatchString) {
				if err := withoutSession(p.Identity); err != nil {
					return nil, err
				}
			}
			for _, s := range sessions {
				devices = append(devices, d.deviceOf(s))
			}
		}
	}
	return devices, nil
}

// shared is the file by which a program and its worker share memory. A program has it mapped until
// it ends, or becomes another one by exec; its session ends with its name.
var shared = regexp.MustCompile(`/sessions/[0-9]+/session( \(deleted\))?$`)

// withoutSession insists that a process which had such a file mapped when it was looked at, and has
// no session, uses no GPU. One that has lost its worker could be saved as if it had never had any:
// a checkpoint that looks whole and is worth nothing. What it was then may have changed unless it
// stands still, so it is read again.
func withoutSession(p proc.Identity) error {
	mappings, err := proc.Mappings(p.PID)
	switch {
	case p.Gone(), errors.Is(err, unix.ESRCH): // a zombie has no memory
		return nil
	case err != nil:
		return err
	}
	for i := range mappings {
		switch match := shared.FindStringSubmatch(mappings[i].Path); {
		case match == nil:
		case match[1] == "":
			return ckpt.Busy(fmt.Errorf("pid %d begins to use a GPU", p.PID))
		default:
			return fmt.Errorf(
				"pid %d has lost its worker, and all that it had on a GPU: its next call of the driver tells it so; restore it from an earlier generation",
				p.PID,
			)
		}
	}
	return nil
}

func (d *Daemon) deviceOf(s *session) ckpt.Device {
	paths := d.dir.Paths(s.record.Session)
	half := image.GPUHalf{
		Session: s.record.Session, SessionPath: paths.Session, ArenaPath: paths.Arena, ArenaBytes: s.record.ArenaBytes,
		Gpus: s.record.Gpus, Wire: wire.Version, Job: s.jobName(),
	}
	for ordinal, info := range d.gpus {
		half.Devices = append(half.Devices, image.Device{
			Ordinal: ordinal, Name: info.Name, UUID: inventory.UUIDText(info.UUID), MemoryBytes: info.MemoryBytes, Capability: preflight.Capability(info),
			CUDA: int(gpu.Driver(d.gpus)),
		})
	}
	return workerclient.New(workerclient.Session{
		Worker: s.control.Worker, Control: d.dir.Control(s.record.Session), Program: s.record.Program, Half: half,
	})
}

// jobName is what the program is called; its worker may be too busy to say.
func (s *session) jobName() string {
	ctx, cancel := context.WithTimeout(context.Background(), describeTime)
	defer cancel()
	return s.describe(ctx).GetJobName()
}

// thisHost is where images are made.
func thisHost() image.Host {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return image.Host{}
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // it is only a note
	return image.Host{
		Name: unix.ByteSliceToString(name.Nodename[:]), Kernel: unix.ByteSliceToString(name.Release[:]),
		Arch: unix.ByteSliceToString(name.Machine[:]), Boot: strings.TrimSpace(string(boot)),
	}
}

// note keeps for --status, and for the next phosd, what became of a checkpoint of some programs.
func (d *Daemon) note(sessions []*session, done *rundir.Checkpoint, failed error) {
	for _, s := range sessions {
		now := rundir.Checkpoint{}
		if before := s.noted.Load(); before != nil {
			now = *before
		}
		now.Tried, now.Error = time.Now(), ""
		if failed != nil {
			now.Error = failed.Error()
		} else {
			now.Last, now.Dir, now.Generation = done.Last, done.Dir, done.Generation
		}
		s.noted.Store(&now)
		d.keepNote(s)
	}
}

// keepNote writes down what --status says, unless the session has ended.
func (d *Daemon) keepNote(s *session) {
	d.records.Lock()
	defer d.records.Unlock()
	if !d.table.has(s) {
		return
	}
	record := s.record
	record.Checkpoint = s.noted.Load()
	if err := d.dir.Save(record); err != nil {
		d.log.Error("write down a checkpoint", "session", s.record.Session, "error", err)
	}
}

// below are the sessions of processes and of those that they have started.
func (d *Daemon) below(pids []uint32) (found []*session) {
	for _, s := range d.table.all() {
		if slices.ContainsFunc(pids, func(pid uint32) bool { return proc.Descends(s.record.Program.PID, int(pid)) }) {
			found = append(found, s)
		}
	}
	return found
}

// pathOf is where an open file lies, as phosd sees it.
func pathOf(file *os.File) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return file.Name()
	}
	return path
}
