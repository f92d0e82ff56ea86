package pager

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// socketName is where CRIU looks for the pager, in the directory of its images.
const socketName = "lazy-pages.socket"

// restoredWord is what CRIU sends when all processes are restored.
const restoredWord = 0x52535446

// Relay is the restorer's part: it receives the userfaultfds from CRIU, passes them on to the pager
// and keeps copies.
type Relay struct {
	link     *fdpass.Conn
	listener *net.UnixListener
	hooks    Hooks

	mu       sync.Mutex // guards what follows
	kept     map[int]*os.File
	restored bool
	failed   error
	ended    bool
	// loaded is closed when all memory is there, or never will be.
	loaded chan struct{}
}

// Hooks are what a relay asks of the restorer.
type Hooks struct {
	// Kill ends the tree, which must not run without its memory.
	Kill func(reason string)
	// Track takes the userfaultfd of a process, by its pid in the image, with which its writes can be
	// tracked.
	Track func(pid int, userfaultfd *os.File)
}

// NewRelay listens for CRIU in the directory of its images. It takes over the link.
func NewRelay(link, images *os.File, hooks Hooks) (*Relay, error) {
	conn, err := fdpass.NewConn(link)
	if err != nil {
		return nil, err
	}
	k := &Relay{link: conn, hooks: hooks, kept: map[int]*os.File{}, loaded: make(chan struct{})}
	if k.listener, err = listen(images); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for CRIU: %w", err), conn.Close())
	}
	go k.acceptCRIU()
	go k.followPager()
	return k, nil
}

// listen creates CRIU's socket, with the owner of its directory.
func listen(images *os.File) (*net.UnixListener, error) {
	var owner unix.Stat_t
	if err := unix.Fstat(int(images.Fd()), &owner); err != nil {
		return nil, err
	}
	path := proc.OwnFile(int(images.Fd())) + "/" + socketName
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := unix.Fchownat(int(images.Fd()), socketName, int(owner.Uid), int(owner.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// acceptCRIU receives the userfaultfds. If CRIU closes the connection before all processes are
// restored, it has failed, and says why itself.
func (k *Relay) acceptCRIU() {
	conn, err := k.listener.AcceptUnix()
	_ = k.listener.Close()
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		restored, err := k.receive(conn)
		if err != nil && !fdpass.HungUp(err) {
			k.end(fmt.Errorf("receive memory from CRIU: %w", err))
		}
		if err != nil || restored {
			return
		}
	}
}

// receive receives one process, or that all are restored.
func (k *Relay) receive(conn *net.UnixConn) (restored bool, err error) {
	word := make([]byte, 4)
	if err := readFull(conn, word); err != nil {
		return false, err
	}
	number := binary.NativeEndian.Uint32(word)
	if number == restoredWord {
		return true, k.complete()
	}
	pid := int(int32(number))
	if pid < 0 {
		return false, nil // a zombie
	}
	beside := make([]byte, unix.CmsgSpace(4*2))
	_, n, _, _, err := conn.ReadMsgUnix(word[:1], beside)
	if err != nil {
		return false, err
	}
	files, err := fdpass.Files(beside[:n])
	if err == nil && len(files) != 1 && len(files) != 2 {
		err = fmt.Errorf("%d files for pid %d", len(files), pid)
	}
	if err != nil {
		fdpass.Close(files)
		return false, err
	}
	k.keep(pid, files[0])
	if len(files) > 1 {
		k.hooks.Track(pid, files[1])
	}
	return false, k.link.Send(fromRestorer{Process: pid}, files[0])
}

func readFull(conn *net.UnixConn, into []byte) error {
	for done := 0; done < len(into); {
		n, err := conn.Read(into[done:])
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

// complete says that all processes are restored.
func (k *Relay) complete() error {
	k.mu.Lock()
	k.restored = true
	k.endIfLoaded()
	k.mu.Unlock()
	return k.link.Send(fromRestorer{Restored: true})
}

// keep keeps a copy of a userfaultfd.
func (k *Relay) keep(number int, file *os.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil { // it was closed
		_ = file.Close()
		return
	}
	k.kept[number] = file
}

// followPager keeps up with the pager, until the link is closed.
func (k *Relay) followPager() {
	for {
		var next fromPager
		files, err := k.link.Receive(&next)
		switch {
		case err != nil:
			k.end(errors.New("the pager has ended before all memory was there"))
			return
		case next.Failed != "":
			k.end(errors.New(next.Failed))
		case len(files) == 1:
			k.keep(next.Forked, files[0])
		default:
			fdpass.Close(files)
			k.drop(next.Done)
		}
	}
}

// drop closes the copy of an address space that has its memory.
func (k *Relay) drop(number int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.kept[number].Close()
	delete(k.kept, number)
	k.endIfLoaded()
}

// endIfLoaded ends the relay's work if all memory is there. The caller holds mu.
func (k *Relay) endIfLoaded() {
	if k.restored && len(k.kept) == 0 && !k.ended {
		k.ended = true
		close(k.loaded)
	}
}

// end kills the tree because some of its memory never comes.
func (k *Relay) end(why error) {
	k.mu.Lock()
	if k.ended {
		k.mu.Unlock()
		return
	}
	k.ended, k.failed = true, fmt.Errorf("%w: %w", ckpt.ErrMemoryLost, why)
	k.mu.Unlock()
	close(k.loaded) // those that wait are told before the tree, and this process, end
	k.hooks.Kill(why.Error())
}

// Loaded reports whether all memory is there.
func (k *Relay) Loaded() bool {
	select {
	case <-k.loaded:
		return true
	default:
		return false
	}
}

// Wait waits until all memory is there.
func (k *Relay) Wait(ctx context.Context) error {
	select {
	case <-k.loaded:
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.failed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close gives up a tree that was not restored, and has been killed.
func (k *Relay) Close() error {
	k.mu.Lock()
	k.ended = true
	files := k.kept
	k.kept = nil
	k.mu.Unlock()
	for _, file := range files {
		_ = file.Close()
	}
	_ = k.listener.SetDeadline(time.Unix(1, 0))
	return k.link.Close()
}
