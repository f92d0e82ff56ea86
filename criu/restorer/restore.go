package restorer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/checkpoint-restore/go-criu/v7/rpc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/hardlink"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/namespace"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
	"github.com/phos-gpu/phos/internal/linux/tcpport"
)

// ErrOrder is returned when an order is inconsistent.
var ErrOrder = errors.New("invalid order of a restore")

// restore restores the tree and leaves it frozen.
func (s *server) restore(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	root, err := s.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	second, err := hardlink.Create(fsuid.Rights(s.order.User), root, s.order.Links)
	if err != nil {
		return err
	}
	group, err := s.openStartGroup()
	if err != nil {
		return errors.Join(err, second.Remove())
	}
	defer group.Close()
	if err := s.startRelay(); err != nil {
		return errors.Join(err, second.Remove())
	}
	options, inherited := s.options()
	_, err = runner.Run(ctx, runner.Request{
		Program: s.order.Program, User: s.order.User, Type: rpc.CriuReqType_RESTORE, Options: options,
		Images: s.files[s.order.Images], Stdin: s.file(s.order.Terminal), Inherited: inherited,
		Namespaces: s.namespaces(), Group: group,
		Notify: func(script string, _ int) error {
			if script != "pre-resume" {
				return nil
			}
			return s.freeze(ctx)
		},
	})
	err = errors.Join(err, second.Remove())
	if lost := s.whyLost(); err != nil && lost != "" {
		err = fmt.Errorf("%w: %s", ckpt.ErrMemoryLost, lost) // CRIU only knows that its processes were killed
	}
	if err == nil && s.group == nil {
		err = errors.New("CRIU did not report that the processes are restored")
	}
	if err == nil && s.order.Eager && s.relay != nil {
		err = s.relay.Wait(ctx)
	}
	if err == nil {
		err = s.start.Thaw() // CRIU has ended, and the tree has left it: the cgroup is removed
	}
	return err
}

// openStartGroup creates the cgroup in which CRIU creates the tree. By it the tree is found if the
// restore fails, in whichever state.
func (s *server) openStartGroup() (*os.File, error) {
	s.start = freezer.At(filepath.Join(s.home, s.order.StartGroup))
	if err := os.Mkdir(s.start.Path, 0o755); err != nil {
		return nil, fmt.Errorf("cgroup of a restore: %w", err)
	}
	return os.Open(s.start.Path)
}

// check validates the file indices of the order.
func (s *server) check() error {
	indices := []int{s.order.Images, s.order.Socket}
	indices = append(append(indices, s.order.Drain...), s.order.Namespaces...)
	for _, inherited := range s.order.Inherit {
		indices = append(indices, inherited.File)
	}
	for _, index := range indices {
		if index < 0 || index >= len(s.files) {
			return fmt.Errorf("%w: no file %d", ErrOrder, index)
		}
	}
	for _, written := range s.order.Written {
		if written.Content >= len(s.files) {
			return fmt.Errorf("%w: no file %d", ErrOrder, written.Content)
		}
	}
	if max(s.order.Terminal, s.order.Log, s.order.Pager) >= len(s.files) {
		return fmt.Errorf("%w: no terminal, log or pager", ErrOrder)
	}
	return nil
}

// file returns the file with an index, or nil.
func (s *server) file(index int) *os.File {
	if index < 0 {
		return nil
	}
	return s.files[index]
}

// prepare makes this process a suitable parent for the tree.
func (s *server) prepare(ctx context.Context) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become reaper: %w", err)
	}
	if terminal := s.file(s.order.Terminal); terminal != nil {
		if err := unix.IoctlSetInt(int(terminal.Fd()), unix.TIOCSCTTY, 0); err != nil {
			return fmt.Errorf("take the terminal: %w", err)
		}
	}
	if err := s.checkPIDs(ctx); err != nil {
		return err
	}
	if err := s.mountSharedMemory(); err != nil {
		return err
	}
	s.freePorts()
	return s.restoreFiles(ctx)
}

// openRoot opens the root directory of the tree's mount namespace. It asks no pid: the namespaces
// are files that phosd has sent.
func (s *server) openRoot() (root *rootdir.Root, err error) {
	err = fsuid.Rights{}.DoAfter(s.enter(), func() (err error) {
		root, err = rootdir.Open("/")
		return err
	})
	return root, err
}

// freePorts frees the ports on which the tree listens from closed connections. If one stays taken,
// CRIU says which.
func (s *server) freePorts() {
	_ = fsuid.Rights{}.DoAfter(s.enter(), func() error { return tcpport.Free(s.order.Listening) })
}

// checkPIDs checks that no other process has a pid of the tree. Zombies get some time to be reaped:
// they may be the processes that were saved.
func (s *server) checkPIDs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, zombieTimeout)
	defer cancel()
	for {
		pid, holder, err := s.findTaken()
		if err != nil || pid == 0 {
			return err
		}
		stat, err := proc.ReadStat(holder)
		if err == nil && (!stat.Zombie() || ctx.Err() != nil) {
			return s.newPIDTaken(pid, stat)
		}
		if err != nil && ctx.Err() != nil {
			return &PIDTaken{PID: pid, Name: "a thread"}
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no event for it
	}
}

// newPIDTaken names the process that has a pid, and its parent, unless they are of another user.
func (s *server) newPIDTaken(pid int, holder *proc.Stat) *PIDTaken {
	taken := &PIDTaken{PID: pid, Zombie: holder.Zombie(), Parent: holder.Parent}
	if holder.VisibleTo(s.order.User.UID) {
		taken.Name = holder.Name()
	}
	if parent, err := proc.Of(holder.Parent); err == nil && parent.VisibleTo(s.order.User.UID) {
		taken.ParentName = parent.Name()
	}
	return taken
}

// findTaken returns a pid of the tree that is in use, and the process that has it; 0 for none.
func (s *server) findTaken() (pid, holder int, err error) {
	elsewhere, err := s.order.Place.Elsewhere("pid")
	if err != nil {
		return 0, 0, err
	}
	if !elsewhere {
		for _, pid := range s.order.PIDs {
			if !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
				return pid, pid, nil
			}
		}
		return 0, 0, nil
	}
	inside, err := proc.Inside(s.order.Place)
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range s.order.PIDs {
		if holder, ok := inside[pid]; ok {
			return pid, holder, nil
		}
	}
	return 0, 0, nil
}

// zombieTimeout is how long a parent may take to reap a zombie.
const zombieTimeout = 2 * time.Second

// freeze freezes the tree before it has run: all its threads are complete, and CRIU still holds
// them.
func (s *server) freeze(ctx context.Context) error {
	var err error
	if s.root, err = s.findRoot(); err != nil {
		return err
	}
	if s.group, err = freezer.FreezeInto(ctx, s.root, s.home, s.order.Group); err != nil {
		return err
	}
	return nil
}

// findRoot returns the root of the tree, a child of the restorer.
func (s *server) findRoot() (proc.Identity, error) {
	if len(s.order.Namespaces) == 0 {
		return proc.Of(s.order.Root)
	}
	tree, err := proc.Tree(s.self)
	if err != nil {
		return proc.Identity{}, err
	}
	for _, stat := range tree[1:] {
		if stat.Parent == s.self.PID && stat.Innermost() == s.order.Root {
			return stat.Identity, nil
		}
	}
	return proc.Identity{}, fmt.Errorf("pid %d: %w", s.order.Root, proc.ErrGone)
}

// enter returns a function that moves the calling thread to the tree's namespaces; nil if those are
// the restorer's.
func (s *server) enter() func() error {
	if len(s.order.Namespaces) == 0 {
		return nil
	}
	return func() error { return namespace.Enter(s.namespaces()) }
}

// namespaces returns the tree's namespaces, as files that phosd has sent.
func (s *server) namespaces() (files []*os.File) {
	for _, index := range s.order.Namespaces {
		files = append(files, s.files[index])
	}
	return files
}

// options returns CRIU's options, and the files that CRIU inherits, in the order of InheritFd.
func (s *server) options() (*rpc.CriuOpts, []*os.File) {
	options := &rpc.CriuOpts{
		RstSibling:        proto.Bool(true),
		External:          s.order.External,
		ShellJob:          proto.Bool(s.order.ShellJob),
		FileLocks:         proto.Bool(true),
		ManageCgroupsMode: rpc.CriuCgMode_IGNORE.Enum(),
		TcpEstablished:    proto.Bool(s.order.Connected),
		ExtUnixSk:         proto.Bool(s.order.Datagrams),
		NetworkLock:       rpc.CriuNetworkLockMethod_SKIP.Enum(),
		LazyPages:         proto.Bool(s.relay != nil),
	}
	if s.relay != nil {
		runner.TrackWritten(options)
	}
	var files []*os.File
	for _, inherited := range s.order.Inherit {
		options.InheritFd = append(options.InheritFd, &rpc.InheritFd{
			Key: proto.String(inherited.Key), Fd: proto.Int32(runner.Descriptor(len(files))),
		})
		files = append(files, s.files[inherited.File])
	}
	return options, files
}

// abort kills everything that exists of the tree, and reaps it.
func (s *server) abort() error {
	if s.relay != nil {
		defer s.relay.Close()
	}
	for _, group := range []*freezer.Group{s.start, s.group} {
		if group == nil {
			continue
		}
		if err := group.Kill(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), freezer.Patience)
	defer cancel()
	for {
		tree, err := proc.Tree(s.self)
		if err != nil {
			return err
		}
		for _, stat := range tree[1:] {
			kill(stat.Identity)
		}
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d processes of the tree cannot be killed: %w", len(tree)-1, ctx.Err())
		case pid == 0:
			time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no event for it
		}
	}
}

// killAll kills the tree; reap sees its end.
func (s *server) killAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), freezer.Patience)
	defer cancel()
	for ctx.Err() == nil {
		tree, err := proc.Tree(s.self)
		if err != nil {
			return err
		}
		alive := false
		for _, stat := range tree[1:] {
			alive = alive || !stat.Zombie()
			kill(stat.Identity)
		}
		if !alive {
			return nil
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no event for it
	}
	return fmt.Errorf("kill the tree: %w", ctx.Err())
}

// kill kills exactly this process. One that has ended needs no signal.
func kill(id proc.Identity) {
	handle, err := proc.Open(id)
	if err != nil {
		return
	}
	defer handle.Close()
	_ = handle.Signal(unix.SIGKILL)
}
