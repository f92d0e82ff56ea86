package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/bounded"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// Machine is the machine on which an image is to be restored.
type Machine struct {
	Arch string
	GPUs []gpu.DeviceInfo
	// CPU is nil if phosd was built without checkpoints.
	CPU ckpt.CPU
	// Room returns how much memory of a GPU is free, and its memory; nil: unknown.
	Room func(ctx context.Context, ordinal int) (free, total uint64)

	mu     sync.Mutex // guards worked
	worked time.Time  // when CPU.Check last succeeded
}

// Restore says how an image is to be restored.
type Restore struct {
	NewPids bool
	// Root is as in ckpt.RestoreOptions.
	Root *rootdir.Root
	GPUs GPUs
	// Notice, which may be nil, is told what Obstacles waits for.
	Notice func(string)
}

// Obstacles finds all obstacles of a restore but those of memory (RoomObstacles) and of files
// (Foreign). It starts nothing.
func (h *Machine) Obstacles(ctx context.Context, m *image.Manifest, how Restore) (found []ckpt.Obstacle) {
	place, newPids := how.Root.Place(), how.NewPids
	if m.Partial() {
		found = append(found, ckpt.Obstacle{
			Subject: "image", Reason: "it is partial: only " + strings.Join(m.Kinds, ", ") +
				" were saved, by --target or --skip-target",
			Remedy: "restore another generation, or take a checkpoint without these flags",
		})
	}
	if m.Contained && (place.PID == 0 || proc.SameRoot(place)) {
		found = append(found, ckpt.Obstacle{
			Subject: "image", Reason: "the program ran in a container", Remedy: "run pos_cli in that container, or in one " +
				"like it",
		})
		return found
	}
	contained, err := place.Elsewhere("mnt", "pid", "net", "ipc", "uts", "cgroup")
	if err != nil {
		return append(found, ckpt.Obstacle{Subject: "caller", Reason: err.Error()})
	}
	if newPids && contained {
		found = append(found, ckpt.Obstacle{
			Subject: "--new-pids", Reason: "a program that is restored in a container has the container's pid namespace " +
				"and cannot have its own",
			Remedy: "restore without --new-pids, once its pids are free there or in another container like it",
		})
	}
	found = append(found, h.cpuObstacles(ctx)...)
	if m.Host.Arch != h.Arch {
		found = append(
			found,
			ckpt.Obstacle{
				Subject: "machine",
				Reason:  fmt.Sprintf("its architecture is %s, that of the program is %s", h.Arch, m.Host.Arch),
			},
		)
	}
	waiting, stop := context.WithTimeout(ctx, reapTimeout)
	defer stop()
	for _, p := range m.Processes {
		if p.GPU != nil {
			found = append(found, h.gpuObstacles(p, how.GPUs)...)
		}
		if !newPids {
			remedy := "restore with --new-pids"
			if contained {
				remedy = "restore in another container like this one"
			}
			found = append(found, pidObstacle(waiting, p, pidCheck{m.Owner.UID, place, remedy, how.Notice})...)
		}
	}
	return append(found, fileObstacles(m, how.Root)...)
}

// cpuObstacles says why CRIU cannot restore processes here.
func (h *Machine) cpuObstacles(ctx context.Context) []ckpt.Obstacle {
	if h.CPU == nil {
		return []ckpt.Obstacle{{Subject: "phosd", Reason: "it was built without checkpoints"}}
	}
	err := h.checkCPU(ctx)
	var known *ckpt.ObstacleError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known.Obstacles
	case proc.Unknown(err) || errors.Is(err, unix.EAGAIN): // from fork
		return []ckpt.Obstacle{
			{Subject: "CRIU", Reason: err.Error(), Remedy: "phosd lacks file descriptors or processes; try again later"},
		}
	}
	return []ckpt.Obstacle{
		{Subject: "CRIU", Reason: err.Error(), Remedy: "install a newer criu, or name one by criu in phosd.toml"},
	}
}

// workedTime is how long a successful check of CRIU counts: the check takes longer than a small
// restore.
const workedTime = time.Minute

func (h *Machine) checkCPU(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.worked) < workedTime {
		return nil
	}
	err := h.CPU.Check(ctx)
	if err == nil {
		h.worked = time.Now()
	}
	return err
}

// gpuObstacles lists what this machine's GPUs lack for a process, and harmless differences.
func (h *Machine) gpuObstacles(p image.Process, gpus GPUs) (found []ckpt.Obstacle) {
	subject := fmt.Sprintf("pid %d", p.PID)
	if p.GPU.Wire != wire.Version {
		found = append(found, ckpt.Obstacle{
			Subject: subject, Reason: fmt.Sprintf("its libphos.so speaks version %d, this phosd version %d", p.GPU.Wire,
				wire.Version),
			Remedy: "restore with the phosd of that version",
		})
	}
	if len(p.GPU.Devices) > len(h.GPUs) {
		found = append(found, ckpt.Obstacle{
			Subject: subject, Reason: fmt.Sprintf("it saw %d GPUs, and here are %d", len(p.GPU.Devices), len(h.GPUs)),
			Remedy: "restore on a machine with as many; of software GPUs, start phosd with as many (--gpus soft:" + strconv.Itoa(
				len(p.GPU.Devices),
			) + ")",
		})
	}
	placed := gpus.Of(p.GPU, len(h.GPUs))
	for i, had := range p.GPU.Devices {
		if placed[i] >= len(h.GPUs) {
			break
		}
		has, subject := h.GPUs[placed[i]], fmt.Sprintf("GPU %d", placed[i])
		had.Ordinal = placed[i]
		found = append(found, codeObstacles(p, had, &has)...)
		if o := driverObstacle(p.PID, had, &has); o != nil {
			o.Subject = subject
			found = append(found, *o)
		}
		if has.MemoryBytes < had.MemoryBytes && used(p.GPU, i) <= has.MemoryBytes {
			found = append(found, ckpt.Obstacle{
				Subject: subject, Harmless: true,
				Reason: fmt.Sprintf(
					"it has %s of memory, and pid %d was started with %s: what the program has fits, what it gets later may not",
					sizeText(has.MemoryBytes),
					p.PID,
					sizeText(had.MemoryBytes),
				),
			})
		}
	}
	return found
}

// reapTimeout is how long to wait for zombies of an image to be reaped, in all: they may be the
// saved processes themselves.
const reapTimeout = 2 * time.Second

// noticeAfter is how long a wait for a zombie takes before the caller is told: most take less.
const noticeAfter = 200 * time.Millisecond

// pidCheck says how to look for a process that has a pid.
type pidCheck struct {
	// owner is the user of the image; other users' processes are not named to it.
	owner uint32
	place proc.Identity
	// otherwise is the remedy that does not end the process.
	otherwise string
	// notice may be nil.
	notice func(string)
}

// pidObstacle names the process that has a pid. If it is a zombie, pidObstacle waits until ctx
// ends.
func pidObstacle(ctx context.Context, p image.Process, how pidCheck) []ckpt.Obstacle {
	pid := p.PID
	if p.Inner != 0 {
		pid = p.Inner
	}
	late := time.After(noticeAfter)
	for {
		id, inGroup, err := how.holder(pid)
		if err != nil {
			return nil
		}
		parent, zombie := id.Zombie()
		if !zombie && id.Gone() {
			continue // it was reaped in the meantime
		}
		if !zombie {
			return []ckpt.Obstacle{how.taken(pid, id, inGroup)}
		}
		select {
		case <-time.After(time.Millisecond):
			continue
		case <-late:
			if how.notice != nil {
				how.notice(fmt.Sprintf("waiting for pid %d to be free", pid))
			}
			continue
		case <-ctx.Done():
		}
		return []ckpt.Obstacle{{
			Subject: fmt.Sprintf("pid %d", pid),
			Reason: fmt.Sprintf("%s has ended, but it is a zombie until its parent, %s, reaps it",
				id.DescribeTo(how.owner), parent.DescribeTo(how.owner)),
			Remedy: "end that parent, or " + how.otherwise,
		}}
	}
}

// holder returns the process that has a pid, or one whose process group has it: the kernel gives
// the pid again only when the group has ended, too.
func (how pidCheck) holder(pid int) (id proc.Identity, inGroup bool, err error) {
	if id, err = how.place.Seen(pid); err == nil {
		return id, false, nil
	}
	elsewhere, unknown := how.place.Elsewhere("pid")
	if unknown != nil || elsewhere || pid <= 1 || unix.Kill(-pid, 0) != nil {
		return id, false, err
	}
	all, unknown := proc.All()
	if unknown != nil {
		return id, false, err
	}
	for _, other := range all {
		stat, gone := proc.ReadStat(other)
		if gone == nil && stat.Group == pid && (!inGroup || !stat.Zombie()) {
			id, inGroup, err = stat.Identity, true, nil
		}
	}
	return id, inGroup, err
}

// taken is the obstacle that a living process has a pid.
func (how pidCheck) taken(pid int, id proc.Identity, inGroup bool) ckpt.Obstacle {
	reason, remedy, holder := "it is taken: ", "end that process, or "+how.otherwise, id.DescribeTo(how.owner)
	switch {
	case inGroup:
		reason, remedy = "it is the process group of ", fmt.Sprintf("end it: kill -- -%d; or %s", pid, how.otherwise)
	case id.VisibleTo(how.owner):
		holder = id.Command(80)
	}
	if !id.VisibleTo(how.owner) || servesOthers(id) {
		remedy = how.otherwise
	}
	return ckpt.Obstacle{Subject: fmt.Sprintf("pid %d", pid), Reason: reason + holder, Remedy: remedy}
}

// servesOthers reports whether a process is phosd or one of its own. A worker must not be ended for
// its pid: its program would lose the GPU.
func servesOthers(id proc.Identity) bool {
	own, err := os.Stat(proc.OwnExecutable)
	theirs, other := os.Stat(proc.Path(id.PID, "exe"))
	return err == nil && other == nil && os.SameFile(own, theirs)
}

// fileObstacles finds files that the restored program would miss, with the rights of its user. It
// leaves out those that cannot be looked at: the decision about a file says so.
func fileObstacles(m *image.Manifest, root *rootdir.Root) (found []ckpt.Obstacle) {
	as := fsuid.Rights{UID: m.Owner.UID, GID: m.Owner.GID, Groups: m.Owner.Groups}
	for _, saved := range m.Files {
		if saved.Library {
			continue
		}
		question := bounded.Question{UID: as.UID, Of: root.Key(saved.Path)}
		missed, _ := bounded.Call(question, bounded.FileTime, func() []ckpt.Obstacle {
			return fileObstacle(as, root, saved)
		})
		found = append(found, missed...)
	}
	return found
}

// fileObstacle looks at one file.
func fileObstacle(as fsuid.Rights, root *rootdir.Root, saved image.SavedFile) []ckpt.Obstacle {
	var info unix.Stat_t
	err := as.Do(func() (err error) {
		info, err = root.Stat(saved.Path)
		return err
	})
	switch {
	case err != nil && saved.Hash == "":
		return []ckpt.Obstacle{{
			Subject: "file " +
				saved.Path, Reason: fmt.Sprintf("the program has it open, its content was not saved, and here: %v", err),
			Remedy: "copy it here",
		}}
	case err != nil:
		// The image has its content, but its directory must exist.
		parent := filepath.Dir(saved.Path)
		if err := as.Do(func() error { return root.Access(parent, unix.X_OK) }); err != nil {
			return []ckpt.Obstacle{{Subject: "directory " + parent, Reason: err.Error(), Remedy: "make it"}}
		}
	case saved.Hash == "" && info.Size < int64(saved.Bytes):
		return []ckpt.Obstacle{{
			Subject: "file " + saved.Path, Reason: fmt.Sprintf("it is %d bytes long, and was %d", info.Size, saved.Bytes),
			Remedy: "copy it here",
		}}
	}
	return nil
}

// Capability returns the compute capability of a GPU: "8.9".
func Capability(info gpu.DeviceInfo) string {
	return fmt.Sprintf(
		"%d.%d",
		info.Attributes[abi.AttrComputeCapabilityMajor],
		info.Attributes[abi.AttrComputeCapabilityMinor],
	)
}
