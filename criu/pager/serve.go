package pager

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/userfault"
)

// pager is the state of the process.
type pager struct {
	order  Order
	layout *layout
	chunks *chunks
	link   *fdpass.Conn
	epoll  int
	// forks is the number of the last child.
	forks int

	mu     sync.Mutex // guards what follows, and the spaces
	spaces map[int]*space
}

// Serve composes CRIU's images, and then gives the processes of a tree their memory until they have
// it.
func Serve() error {
	fdpass.IgnoreSignals()
	runner.RaiseLimits()
	conn, err := fdpass.Inherited(orderFD)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := &pager{spaces: map[int]*space{}}
	if _, err := conn.Receive(&p.order); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	err = p.prepare()
	reply := answer{Outcome: kinds.Outcome(err)}
	if err == nil {
		reply.LazyBytes = p.layout.lazyBytes()
	}
	if err := errors.Join(err, conn.Send(reply)); err != nil {
		return err
	}
	_ = conn.Close() // phosd may end
	return p.run()
}

// prepare opens the image and composes CRIU's images.
func (p *pager) prepare() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if p.link, err = fdpass.Inherited(inherited(linkFile)); err != nil {
		return err
	}
	images := os.NewFile(uintptr(inherited(imagesFile)), "images")
	defer images.Close()
	var packs []*os.File
	for i := range p.order.Packs {
		fd := inherited(packFiles + i)
		unix.CloseOnExec(fd)
		path, err := proc.PathOf(fd)
		if err != nil {
			return fmt.Errorf("pack %d: %w", i, err)
		}
		packs = append(packs, os.NewFile(uintptr(fd), path))
	}
	reader, err := contents.NewReader(packs)
	if err != nil {
		return err
	}
	if p.layout, err = readLayout(reader, p.order.Tree, p.order.Root); err != nil {
		return err
	}
	p.chunks = newChunks(p.layout)
	if err := p.limitFiles(); err != nil {
		return err
	}
	return p.layout.compose(images)
}

// otherFiles is how many descriptors a restorer needs beside those of processes.
const otherFiles = 64

// limitFiles lets this process have fewer descriptors than the restorer, which keeps a copy of each
// userfaultfd and more: it must not be the first that cannot have another.
func (p *pager) limitFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	more := uint64(otherFiles + len(p.layout.processes))
	limit.Cur -= min(more, limit.Cur/2)
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
}

// run gives the processes their memory. If it fails, the restorer kills the tree.
func (p *pager) run() error {
	failed := make(chan error, 1)
	go func() { failed <- p.watch() }()
	restored := make(chan bool, 1)
	go p.receive(restored, failed)
	go func() {
		if <-restored {
			failed <- p.fill()
			return
		}
		failed <- errAborted
	}()
	err := <-failed
	if err == nil || errors.Is(err, errAborted) {
		return nil
	}
	if told := p.tell(fromPager{Failed: err.Error()}); told != nil {
		// The restorer cannot end the tree, and what is closed here would be zeros there.
		fmt.Fprintf(os.Stderr, "pager: %v; its restorer has ended: kill the programs that wait for this memory\n", err)
		select {}
	}
	<-restored // it is closed with the link, when the restorer has killed the tree
	return err
}

// errAborted is returned when the restore has failed: no process of the tree has run.
var errAborted = errors.New("the restore has failed")

// receive receives what the restorer sends. restored is closed with the link.
func (p *pager) receive(restored chan<- bool, failed chan<- error) {
	defer close(restored)
	for {
		var next fromRestorer
		files, err := p.link.Receive(&next)
		if err != nil {
			return
		}
		switch {
		case next.Restored:
			restored <- true
		case len(files) == 1:
			if err := p.addProcess(next.Process, userfault.File{File: files[0]}); err != nil {
				failed <- err
			}
		default:
			fdpass.Close(files)
		}
	}
}

// addProcess adds the address space of a restored process.
func (p *pager) addProcess(pid int, file userfault.File) error {
	known := p.layout.processes[pid]
	if known == nil {
		return fmt.Errorf("pid %d is not in the image %s", pid, p.order.Image)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(&space{number: pid, file: file, missing: known.lazy.clone()})
}

// add begins to follow an address space. The caller holds mu.
func (p *pager) add(s *space) error {
	p.spaces[s.number] = s
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(s.number)}
	controlled := raw.Control(func(fd uintptr) { err = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, int(fd), &event) })
	if err := errors.Join(controlled, err); err != nil {
		return fmt.Errorf("follow memory of pid %d: %w", s.number, err)
	}
	return nil
}

// finish lets go of an address space that has all its memory, or is gone. The restorer closes its
// userfaultfd, too, and the kernel forgets it.
func (p *pager) finish(s *space) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spaces[s.number] != s {
		return nil // it was gone before
	}
	return p.remove(s)
}

// finishGone lets go of all children that have ended. A program may fork more of them, while its
// memory comes, than it has at any time.
func (p *pager) finishGone() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.spaces {
		if s.number < 0 && s.file.Gone() {
			if err := p.remove(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove forgets an address space. The caller holds mu.
func (p *pager) remove(s *space) error {
	delete(p.spaces, s.number)
	return errors.Join(s.file.Close(), p.tell(fromPager{Done: s.number}))
}

// all returns all address spaces, parents before children.
func (p *pager) all() (found []*space) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.spaces {
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b *space) int { return b.number - a.number })
	return found
}

// tell sends a message to the restorer. One that was killed needs none.
func (p *pager) tell(message fromPager, files ...*os.File) error {
	err := p.link.Send(message, files...)
	if fdpass.HungUp(err) && message.Failed == "" {
		return nil
	}
	return err
}
