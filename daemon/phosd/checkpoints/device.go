package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/workerclient"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// devicesOf returns the devices of all sessions of the trees' processes.
func (c *Checkpoints) devicesOf(trees []*ckpt.Tree) ([]ckpt.GPU, error) {
	var devices []ckpt.GPU
	for _, tree := range trees {
		for _, p := range tree.Processes {
			found := c.sessions.Of(p.Identity)
			if len(found) == 0 && slices.ContainsFunc(p.Mapped, sessionFile.MatchString) {
				if err := c.checkNoSession(p.Identity); err != nil {
					return nil, err
				}
			}
			for _, s := range found {
				devices = append(devices, c.deviceOf(s))
			}
		}
	}
	return devices, nil
}

// track implements ckpt.Track. The userfaultfd of a program with a session is its worker's; that of
// another process is its restorer's, if it was restored.
func (c *Checkpoints) track(ctx context.Context, process proc.Identity) (*os.File, func(), error) {
	found := c.sessions.Of(process)
	if len(found) == 0 {
		userfaultfd, err := c.trackRestored(ctx, process)
		return userfaultfd, func() {}, err
	}
	userfaultfd, end, err := found[0].Track(ctx)
	if errors.Is(err, sessions.ErrUntracked) {
		err = ckpt.ErrUntracked
	}
	return userfaultfd, end, err
}

// trackRestored returns the userfaultfd that a restore has made in a process.
func (c *Checkpoints) trackRestored(ctx context.Context, process proc.Identity) (*os.File, error) {
	tracker, ok := c.options.CPU.(ckpt.RestoredTracker)
	if !ok {
		return nil, ckpt.ErrUntracked
	}
	return tracker.TrackRestored(ctx, process)
}

// sessionFile matches the path of the file by which a program and its worker share memory. A
// program has it mapped until it ends or calls exec. When the session ends, the file's name is
// removed.
var sessionFile = regexp.MustCompile(`/sessions/[0-9]+/session( \(deleted\))?$`)

// checkNoSession checks that a process without a session uses no GPU, although it had a session
// file mapped when it was inspected. A program that has lost its worker must not be saved as if it
// had never used a GPU: the checkpoint would look complete and be worthless. The mappings are read
// again, because they may have changed since.
func (c *Checkpoints) checkNoSession(p proc.Identity) error {
	mappings, err := proc.Mappings(p.PID)
	switch {
	case p.Gone(), errors.Is(err, unix.ESRCH): // a zombie has no memory
		return nil
	case err != nil:
		return err
	}
	for i := range mappings {
		switch match := sessionFile.FindStringSubmatch(mappings[i].Path); {
		case match == nil:
		case match[1] == "":
			return ckpt.Busy(fmt.Errorf("pid %d is starting its session", p.PID))
		default:
			return c.sessions.Lost(p)
		}
	}
	return nil
}

// deviceOf returns the GPU half of a session's program, with the GPUs as they are now.
func (c *Checkpoints) deviceOf(s *sessions.Session) ckpt.GPU {
	record, paths := s.Record(), c.options.Dir.Paths(s.Record().Session)
	half := image.GPUHalf{
		Session: record.Session, SessionPath: paths.Session, ArenaPath: paths.Arena, ArenaBytes: record.ArenaBytes,
		Gpus: record.Gpus, Wire: wire.Version,
		Job: s.Describe(context.Background()).GetJobName(), // empty if the worker is too busy to answer
	}
	gpus := c.devices.GPUs()
	for ordinal, info := range gpus {
		half.Devices = append(half.Devices, image.Device{
			Ordinal: ordinal, Name: info.Name, UUID: inventory.UUIDText(info.UUID), MemoryBytes: info.MemoryBytes,
			Capability: preflight.Capability(info), CUDA: int(gpu.Driver(gpus)),
		})
	}
	return workerclient.New(workerclient.Session{
		Worker: s.Worker(), Control: s.ControlPath(), Program: record.Program, Half: half,
		Explain: s.Explain,
	})
}

// thisHost describes this machine for the manifest of an image.
func thisHost() image.Host {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return image.Host{}
	}
	boot, _ := proc.BootID() // an image may be without it
	return image.Host{
		Name: unix.ByteSliceToString(name.Nodename[:]), Kernel: unix.ByteSliceToString(name.Release[:]),
		Arch: unix.ByteSliceToString(name.Machine[:]), Boot: boot,
	}
}
