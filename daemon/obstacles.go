package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/process"
	"github.com/phos-gpu/phos/daemon/rights"
	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/hijack/wire"
)

// CheckImage says whether an image can be restored here.
func (s *service) CheckImage(ctx context.Context, request *rpc.CheckImageRequest) (*rpc.CheckImageReply, error) {
	actor, err := rpc.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := s.daemon.takeFiles(request.GetFiles(), actor)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	image, err := s.daemon.openImage(files[0], request.GetGeneration(), actor)
	if err != nil {
		// What keeps the image from being opened is an answer too.
		return &rpc.CheckImageReply{Obstacles: []*rpc.Obstacle{{Subject: "image", Reason: err.Error()}}}, nil
	}
	defer image.close()
	reply := &rpc.CheckImageReply{}
	for _, o := range s.daemon.obstacles(ctx, image, request.GetNewPids()) {
		reply.Obstacles = append(reply.Obstacles, &rpc.Obstacle{Subject: o.Subject, Reason: o.Reason, Remedy: o.Remedy, Harmless: o.Harmless})
	}
	return reply, nil
}

// obstacles are all things that stand against restoring an image, found without starting anything.
func (d *Daemon) obstacles(ctx context.Context, image *opened, newPids bool) (found []ckpt.Obstacle) {
	m := image.source.Manifest
	if m.Partial() {
		found = append(found, ckpt.Obstacle{
			Subject: "image", Reason: fmt.Sprintf("only %v was saved, by --target or --skip-target", m.Kinds),
			Remedy: "save everything",
		})
	}
	if d.options.CPU == nil {
		found = append(found, ckpt.Obstacle{Subject: "phosd", Reason: "it was built without checkpoints"})
	} else if err := d.checkCPU(ctx); err != nil {
		found = append(found, ckpt.Obstacle{Subject: "CRIU", Reason: err.Error(), Remedy: "install CRIU 4, or name it with the setting criu"})
	}
	if arch := thisHost().Arch; m.Host.Arch != arch {
		found = append(found, ckpt.Obstacle{Subject: "machine", Reason: fmt.Sprintf("it is of architecture %s, the program of %s", arch, m.Host.Arch)})
	}
	for _, p := range m.Processes {
		if p.GPU != nil {
			found = append(found, d.gpuObstacles(p)...)
		}
		if !newPids {
			found = append(found, pidObstacle(p)...)
		}
	}
	return append(found, fileObstacles(m)...)
}

// cpuCheck remembers for a while that CRIU works: asking it takes longer than a small restore.
type cpuCheck struct {
	worked time.Time
}

const cpuCheckTime = time.Minute

func (d *Daemon) checkCPU(ctx context.Context) error {
	if last := d.criuWorked.Load(); last != nil && time.Since(last.worked) < cpuCheckTime {
		return nil
	}
	err := d.options.CPU.Check(ctx)
	if err == nil {
		d.criuWorked.Store(&cpuCheck{worked: time.Now()})
	}
	return err
}

func (d *Daemon) gpuObstacles(p image.Process) (found []ckpt.Obstacle) {
	subject := fmt.Sprintf("pid %d", p.PID)
	if p.GPU.Wire != wire.Version {
		found = append(found, ckpt.Obstacle{
			Subject: subject, Reason: fmt.Sprintf("its libphos.so speaks version %d, this phosd version %d", p.GPU.Wire, wire.Version),
			Remedy: "restore with the phosd of that version",
		})
	}
	if len(p.GPU.Devices) > len(d.gpus) {
		found = append(found, ckpt.Obstacle{
			Subject: subject, Reason: fmt.Sprintf("it saw %d GPUs, and here are %d", len(p.GPU.Devices), len(d.gpus)),
			Remedy: "start phosd with as many",
		})
	}
	for i, had := range p.GPU.Devices {
		if i >= len(d.gpus) {
			break
		}
		has, gpu := d.gpus[i], fmt.Sprintf("GPU %d", i)
		if now := capability(has); now != had.Capability {
			found = append(found, ckpt.Obstacle{
				Subject: gpu, Reason: fmt.Sprintf("its compute capability is %s, and pid %d was started on %s", now, p.PID, had.Capability),
			})
		}
		if has.MemoryBytes < had.MemoryBytes {
			found = append(found, ckpt.Obstacle{
				Subject: gpu, Reason: fmt.Sprintf("it has %d bytes of memory, and pid %d was started with %d", has.MemoryBytes, p.PID, had.MemoryBytes),
			})
		}
	}
	return found
}

func pidObstacle(p image.Process) []ckpt.Obstacle {
	id, err := process.Of(p.PID)
	if err != nil {
		return nil
	}
	return []ckpt.Obstacle{{
		Subject: fmt.Sprintf("pid %d", p.PID), Reason: "it is taken: " + id.Command(80),
		Remedy: "end that process, or restore with --new-pids",
	}}
}

// fileObstacles looks for files that the program will find gone, with the rights of its user.
func fileObstacles(m *image.Manifest) (found []ckpt.Obstacle) {
	as := rights.Rights{UID: m.Owner.UID, GID: m.Owner.GID, Groups: m.Owner.Groups}
	for _, saved := range m.Files {
		if saved.Library {
			continue
		}
		var info unix.Stat_t
		err := as.Do(func() error { return unix.Stat(saved.Path, &info) })
		switch {
		case err != nil && saved.Hash == "":
			found = append(found, ckpt.Obstacle{
				Subject: "file " + saved.Path, Reason: fmt.Sprintf("the program has it open, its content was not saved, and here: %v", err),
				Remedy: "copy it here",
			})
		case err != nil:
			// Its content comes along; its directory must be there.
			parent := filepath.Dir(saved.Path)
			if err := as.Do(func() error { return unix.Access(parent, unix.X_OK) }); err != nil {
				found = append(found, ckpt.Obstacle{Subject: "directory " + parent, Reason: err.Error(), Remedy: "make it"})
			}
		case saved.Hash == "" && info.Size < int64(saved.Bytes):
			found = append(found, ckpt.Obstacle{
				Subject: "file " + saved.Path, Reason: fmt.Sprintf("it is %d bytes long, and was %d", info.Size, saved.Bytes),
				Remedy: "copy it here",
			})
		}
	}
	return found
}

// library keeps a copy of a library that is no longer where it was.
func (d *Daemon) library(saved image.SavedFile, content io.Reader) (*os.File, error) {
	return d.state.Library(saved.Hash, content)
}

// newKeeper is a place for the socket of a tree's keeper.
func (d *Daemon) newKeeper() string {
	return d.dir.Keeper(strconv.FormatUint(d.keepers.Add(1), 10) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36))
}
