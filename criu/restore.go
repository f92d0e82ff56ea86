package criu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/criu/filelist"
	"github.com/phos-gpu/phos/criu/restorer"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/pty"
)

// plan collects a restorer's order and its files.
type plan struct {
	restorer.Order
	files []*os.File
	// own are files that were opened for the plan.
	own []*os.File
	// flows are contents that go through pipes.
	flows []flow
}

// none stands for no file.
const none = -1

// add appends a file and returns its index.
func (p *plan) add(file *os.File) int {
	p.files = append(p.files, file)
	return len(p.files) - 1
}

// addOwn appends a file that the plan closes.
func (p *plan) addOwn(file *os.File) int {
	p.own = append(p.own, file)
	return p.add(file)
}

func (p *plan) close() { fdpass.Close(p.own) }

// closeFlows closes the pipes of a plan that is not carried out.
func (p *plan) closeFlows() {
	for _, each := range p.flows {
		_ = each.to.Close()
	}
}

// restored is a restored tree.
type restored struct {
	client *restorer.Client
	// control is the path of the restorer's socket.
	control   string
	committed bool
	record    *record
	found     map[int]proc.Identity
	// unfinished is nil for a tree that another phosd has restored.
	unfinished *unfinished
}

// Restore restores a tree, which stays frozen until Keep.
func (c *CPU) Restore(ctx context.Context, order ckpt.RestoreOptions) (ckpt.Restored, error) {
	r, err := readRecord(order.Images)
	if err != nil {
		return nil, err
	}
	release, err := c.sharing.reserve(ctx, order.Files)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := filelist.ForgetSizes(order.Images, pathsOf(order)); err != nil {
		return nil, err
	}
	if err := filelist.ForgetParent(order.Images, r.Root); err != nil {
		return nil, err
	}
	p, err := c.newPlan(ctx, order, r)
	defer p.close()
	if err != nil {
		p.closeFlows()
		return nil, errors.Join(err, removeSocket(order.Control))
	}
	restoring := c.sharing.begin()
	p.Started = restoring.started
	var failed flowError
	for _, each := range p.flows {
		go each.run(&failed)
	}
	client, err := restorer.Start(ctx, c.options.Roles, order.Control, p.Order, p.files)
	if err != nil {
		restoring.finish()
		return nil, errors.Join(failed.cause(err), removeSocket(order.Control))
	}
	go func() { // whatever becomes of this restore
		client.WaitEnd()
		restoring.finish()
	}()
	if m, ok := order.Memory.(memory); ok {
		m.HandOver()
	}
	back := &restored{client: client, control: order.Control, record: r, unfinished: restoring}
	if back.found, err = back.readProcesses(); err != nil {
		return nil, errors.Join(err, back.Kill())
	}
	c.sharing.add(back)
	return back, nil
}

// removeSocket removes the restorer's socket.
func removeSocket(control string) error {
	if err := os.Remove(control); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Adopt finds a tree that an earlier phosd has restored.
func (c *CPU) Adopt(_ context.Context, control string) (ckpt.Restored, error) {
	client, err := restorer.Adopt(control)
	if errors.Is(err, proc.ErrGone) {
		return nil, errors.Join(err, removeSocket(control))
	}
	if err != nil {
		return nil, err
	}
	back := &restored{client: client, committed: true, record: &record{Outside: client.Outside()}}
	back.found, err = back.readProcesses()
	switch {
	case err == nil:
		c.sharing.add(back)
	case errors.Is(err, proc.ErrGone):
		// The restorer has ended after its answer.
		err = errors.Join(err, removeSocket(control))
	}
	return back, err
}

// newPlan builds the restorer's order.
func (c *CPU) newPlan(ctx context.Context, order ckpt.RestoreOptions, r *record) (*plan, error) {
	p := &plan{Order: restorer.Order{
		Program: c.options.Program, User: runner.User{UID: order.UID, GID: order.GID, Groups: order.Groups},
		Root:    r.Root,
		Outside: r.Outside, NewPids: order.NewPids, Cgroup: order.Cgroup, ShellJob: r.ShellJob, Connected: r.Connected,
		Listening: r.Listening, Datagrams: r.Datagrams, Links: r.Links, SocketDirs: r.SocketDirs, Detach: order.Detach, Terminal: none, Pager: none,
		Log: none, LogJSON: c.options.LogJSON, Deadline: deadline(ctx, restoreTime),
	}}
	pids, err := threads(order.Images)
	if err != nil {
		return p, fmt.Errorf("images: %w", err)
	}
	p.PIDs = pids
	p.Images = p.add(order.Images)
	p.addPager(order)
	socket, err := fdpass.Listen(order.Control)
	if err != nil {
		return p, err
	}
	p.Socket = p.addOwn(socket)
	if order.Log != nil {
		p.Log = p.add(order.Log)
	}
	for _, path := range slices.Sorted(maps.Keys(order.Remap)) {
		// CRIU's file names are paths without the leading slash.
		p.Inherit = append(
			p.Inherit,
			restorer.Inherited{Key: strings.TrimPrefix(path, "/"), File: p.add(order.Remap[path])},
		)
	}
	if err := p.addNamespaces(order.Place); err != nil {
		return p, err
	}
	if err := p.addNetwork(order); err != nil {
		return p, err
	}
	if err := p.addForeign(order, r); err != nil {
		return p, err
	}
	if err := p.addEnds(order, r); err != nil {
		return p, err
	}
	shared, err := c.sharedFiles(order, r)
	if err != nil {
		return p, err
	}
	return p, p.addContents(order.Files, shared)
}

// ErrPlace is returned when a tree cannot be restored in the requested namespaces.
var ErrPlace = errors.New("cannot be restored here")

// addNamespaces opens the namespaces of the tree that differ from phosd's.
func (p *plan) addNamespaces(place proc.Identity) error {
	if place.PID == 0 {
		return nil
	}
	if rootless, err := place.Elsewhere("user"); err != nil {
		return fmt.Errorf("%w: %w", ErrPlace, err)
	} else if rootless {
		return fmt.Errorf("%w: pid %d is in another user namespace (a rootless container)", ErrPlace, place.PID)
	}
	p.Place = place
	for _, kind := range []string{"mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		if elsewhere, err := place.Elsewhere(kind); err != nil {
			return fmt.Errorf("%w: %w", ErrPlace, err)
		} else if !elsewhere {
			continue
		}
		file, err := proc.OpenNamespace(place.PID, kind)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrPlace, err)
		}
		p.Namespaces = append(p.Namespaces, p.addOwn(file))
	}
	if err := place.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrPlace, err)
	}
	if p.NewPids && len(p.Namespaces) > 0 {
		return fmt.Errorf(
			"%w: in a container a program has the container's pid namespace: restore without --new-pids",
			ErrPlace,
		)
	}
	return nil
}

// addNetwork opens the network namespace of the tree, if it differs from phosd's. It is the only
// one then: a caller in a container has a Place.
func (p *plan) addNetwork(order ckpt.RestoreOptions) error {
	if order.Place.PID != 0 {
		return nil
	}
	if elsewhere, err := order.Network.Elsewhere("net"); err != nil || !elsewhere {
		return err
	}
	file, err := proc.OpenNamespace(order.Network.PID, "net")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPlace, err)
	}
	p.Namespaces = append(p.Namespaces, p.addOwn(file))
	return order.Network.Check()
}

// addForeign opens the files that the tree had through mounts of other namespaces. They are opened
// with the user's rights, because CRIU does not check the path of inherited files.
func (p *plan) addForeign(order ckpt.RestoreOptions, r *record) error {
	for _, f := range r.Foreign {
		if file := order.Remap[f.Path]; file != nil {
			p.Inherit = append(p.Inherit, restorer.Inherited{Key: f.Key, File: p.add(file)})
			continue
		}
		err := fsuid.Rights(p.User).Do(func() error {
			fd, err := unix.Open(f.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return &os.PathError{Op: "open", Path: f.Path, Err: err}
			}
			p.Inherit = append(
				p.Inherit,
				restorer.Inherited{Key: f.Key, File: p.addOwn(os.NewFile(uintptr(fd), f.Path))},
			)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addEnds opens a replacement for each outside end.
func (p *plan) addEnds(order ckpt.RestoreOptions, r *record) error {
	for _, end := range order.Described {
		if !slices.Contains(r.Ends, end.Key) {
			// It belongs to another tree of the same image.
			continue
		}
		index, err := p.addEnd(end, order.Endpoints[end.ID])
		if err != nil {
			return fmt.Errorf("replacement for %s (%s): %w", strings.Join(end.Descriptors, ", "), end.Kind, err)
		}
		if end.Key == r.JobTerminal {
			p.Terminal = index
			continue
		}
		p.Inherit = append(p.Inherit, restorer.Inherited{Key: end.Key, File: index})
	}
	return nil
}

func (p *plan) addEnd(end image.Endpoint, given *os.File) (int, error) {
	if given != nil {
		return p.add(given), checkEnd(end, given)
	}
	file, drained, err := replacement(end)
	if err != nil {
		return none, err
	}
	if err := p.chown(end, file); err != nil {
		return none, errors.Join(err, file.Close(), drained.Close())
	}
	if drained != nil {
		p.Drain = append(p.Drain, p.addOwn(drained))
	}
	return p.addOwn(file), nil
}

// ErrEnd is returned when a given file is not of the kind of the end that it is given for.
var ErrEnd = errors.New("file is of another kind")

// checkEnd checks what a given file is by the file alone. It belongs to the caller: its owner and
// mode are not changed here.
func checkEnd(end image.Endpoint, given *os.File) error {
	var info unix.Stat_t
	if err := unix.Fstat(int(given.Fd()), &info); err != nil {
		return err
	}
	ok := false
	switch format := info.Mode & unix.S_IFMT; end.Kind {
	case "pipe-read", "pipe-write":
		ok = format == unix.S_IFIFO
	case "terminal":
		_, err := unix.IoctlGetTermios(int(given.Fd()), unix.TCGETS)
		ok = format == unix.S_IFCHR && err == nil
	default:
		ok = format == unix.S_IFSOCK
	}
	if !ok {
		return fmt.Errorf("%w: want a %s", ErrEnd, end.Kind)
	}
	return nil
}

// chown gives a pipe or terminal that was made here to the user: CRIU opens pipes again with the
// user's rights, and the program may open its terminal.
func (p *plan) chown(end image.Endpoint, file *os.File) error {
	if end.Kind != "pipe-write" && end.Kind != "terminal" {
		return nil
	}
	return file.Chown(int(p.User.UID), -1)
}

// flow is the content of a file that is sent to the restorer.
type flow struct {
	ckpt.FileContent
	to *os.File
}

// run copies the content and closes the pipe. On failure the reader sees a short file; the cause is
// in failed before that.
func (f flow) run(failed *flowError) {
	if _, err := io.Copy(f.to, f.Content); err != nil {
		failed.note(fmt.Errorf("content of %s: %w", f.Path, err))
	}
	_ = f.to.Close()
}

// flowError is the first error of all flows.
type flowError struct {
	mu    sync.Mutex
	first error
}

// note keeps the first read error. EPIPE is ignored: the reader has gone away.
func (d *flowError) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first == nil && !errors.Is(err, unix.EPIPE) {
		d.first = err
	}
}

// cause adds the read error to failure: the reader only knows that a content was too short.
func (d *flowError) cause(failure error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first == nil {
		return failure
	}
	return fmt.Errorf("%w: %w", failure, d.first)
}

// addContents creates pipes for the contents of files. The restorer writes the files one after the
// other.
func (p *plan) addContents(files []ckpt.FileContent, shared map[string]bool) error {
	for _, file := range files {
		written := restorer.Written{
			Path:    file.Path,
			Bytes:   file.Bytes,
			Mode:    file.Mode,
			Content: none,
			Shared:  shared[file.Path] || file.Keep,
			CopyTo:  file.CopyTo, CopyFrom: file.CopyFrom, Seen: file.Seen,
		}
		if written.Shared {
			written.Bytes, written.CopyTo, written.Seen = file.MinBytes, "", nil
		}
		if file.Content != nil && !written.Shared {
			read, write, err := os.Pipe()
			if err != nil {
				return fmt.Errorf("content of %s: %w", file.Path, err)
			}
			written.Content = p.addOwn(read)
			p.flows = append(p.flows, flow{file, write})
		}
		p.Written = append(p.Written, written)
	}
	return nil
}

func (r *restored) readProcesses() (map[int]proc.Identity, error) {
	inner, err := r.client.Processes()
	if err != nil {
		return nil, err
	}
	found := make(map[int]proc.Identity, len(inner))
	for pid, id := range inner {
		found[r.record.outside(pid)] = id
	}
	return found, nil
}

// Processes returns the processes of the tree.
func (r *restored) Processes() map[int]proc.Identity { return r.found }

// Includes reports whether a process is of the tree.
func (r *restored) Includes(process proc.Identity) bool { return r.client.Includes(process) }

// Keep lets the tree run.
func (r *restored) Keep() error {
	if err := r.client.Commit(); err != nil {
		return err
	}
	r.committed = true
	r.unfinished.finish()
	return nil
}

// Kill ends the tree.
func (r *restored) Kill() error {
	if !r.committed {
		defer r.unfinished.finish()
		return errors.Join(r.client.Abandon(), removeSocket(r.control))
	}
	if err := r.client.Kill(); err != nil && !errors.Is(err, proc.ErrGone) {
		return err
	}
	return nil
}

// Signal sends a signal to the root.
func (r *restored) Signal(signal int) error { return r.client.Signal(signal) }

// Wait waits until the root has ended.
func (r *restored) Wait(ctx context.Context) (int, error) { return r.client.Wait(ctx) }

// replacement returns a replacement for an end that the caller did not provide. What the program
// writes to it can be read from drained.
func replacement(end image.Endpoint) (file, drained *os.File, err error) {
	switch end.Kind {
	case "pipe-read":
		file, err = os.Open(os.DevNull)
	case "pipe-write":
		drained, file, err = os.Pipe()
	case "terminal":
		file, drained, err = pty.Open(end.Rows, end.Columns)
	default:
		var pair [2]int
		if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			file, drained = os.NewFile(uintptr(pair[0]), "stand-in"), os.NewFile(uintptr(pair[1]), "stand-in")
		}
	}
	return file, drained, err
}
