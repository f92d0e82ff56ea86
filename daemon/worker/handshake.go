package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/daemon/worker/tracker"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// maxProposals is how often a program may propose an address for the arena.
const maxProposals = 64

// errVersion is returned when libphos.so and phosd have different wire versions.
var errVersion = errors.New("another version")

// readHello reads and checks the program's first message.
func readHello(conn net.Conn) (wire.Hello, error) {
	var hello wire.Hello
	message := make([]byte, wire.HelloBytes)
	if _, err := io.ReadFull(conn, message); err != nil {
		return hello, fmt.Errorf("handshake: %w", err)
	}
	if err := hello.Decode(message); err != nil {
		return hello, err
	}
	if hello.Version != wire.Version {
		return hello, fmt.Errorf("%w: libphos.so speaks version %d and phosd version %d; install both from the same release",
			errVersion, hello.Version, wire.Version)
	}
	return hello, nil
}

// sendWelcome tells the program where its session's files are.
func (w *Worker) sendWelcome(conn net.Conn, hello wire.Hello) error {
	message := wire.Welcome{
		WorkerPID:    w.pidFor(hello),
		Session:      w.config.Session,
		SessionBytes: wire.SessionBytes,
		ArenaBytes:   w.config.ArenaBytes,
		SessionPath:  w.config.SessionPath,
		ArenaPath:    w.config.ArenaPath,
	}
	message.Message = w.currentJob().errorText()
	if hello.Flags&wire.HelloVisible != 0 {
		message.Features |= wire.WelcomeVisible
	}
	if hello.Flags&wire.HelloTracked != 0 {
		message.Features |= wire.WelcomeTracked
	}
	if _, err := conn.Write(message.Append(nil)); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return nil
}

// agreeVisible reads which GPUs the program wants to see, if it says so, and answers. With none the
// program cannot start.
func (w *Worker) agreeVisible(conn net.Conn, hello wire.Hello) error {
	renumbered := view.Renumbered(w.config.Renumbered)
	if hello.Flags&wire.HelloVisible == 0 {
		if len(renumbered) > 0 {
			w.visible = renumbered.Visible("", false, w.backend.Devices())
		}
		return nil
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	value := make([]byte, binary.LittleEndian.Uint32(length[:])&0xffff)
	if len(value) > wire.MaxVisibleBytes {
		return fmt.Errorf("%w: %s of %d bytes", wire.ErrHandshake, view.Variable, len(value))
	}
	if _, err := io.ReadFull(conn, value); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	w.visible = renumbered.Visible(string(value), true, w.backend.Devices())
	seen, none := abi.Success, error(nil)
	if len(w.visible) == 0 {
		seen = abi.NoDevice
		none = fmt.Errorf("%w: %s=%q names none of %d GPUs", abi.NoDevice, view.Variable, value, len(w.backend.Devices()))
	}
	if _, err := conn.Write(binary.LittleEndian.AppendUint32(nil, uint32(seen))); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return none
}

// receiveTracker receives what tracks the program's writes, if the program offers it.
func (w *Worker) receiveTracker(conn net.Conn, hello wire.Hello) error {
	if hello.Flags&wire.HelloTracked == 0 {
		return nil
	}
	received, err := tracker.Receive(conn)
	if errors.Is(err, tracker.ErrNone) {
		w.log.Info("a checkpoint copies the program's memory while it stands still", "why", err)
		return nil
	}
	w.tracker.Store(received)
	return err
}

// pidFor returns the pid of this process as the program sees it, or 0 if the program is in another
// pid namespace.
func (w *Worker) pidFor(hello wire.Hello) uint32 {
	if int(hello.PID) != w.config.Program.PID {
		return 0
	}
	return uint32(os.Getpid())
}

// Bounds of the arena's address. Device windows and Go's heap are outside of them.
const (
	lowestArena  = 0x5000_0000_0000
	highestArena = 0x7000_0000_0000
)

// placeArena maps the arena at an address that is free in both processes. The program proposes
// addresses.
func (w *Worker) placeArena(conn net.Conn) (*wire.Arena, error) {
	arena, err := wire.OpenArena(w.config.ArenaPath)
	if err != nil {
		return nil, err
	}
	var proposal [wire.MappedBytes]byte
	for range maxProposals {
		if _, err := io.ReadFull(conn, proposal[:]); err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
		address := binary.LittleEndian.Uint64(proposal[:])
		if address == 0 {
			return nil, fmt.Errorf("handshake: the program found no place for the arena: %w", abi.OutOfMemory)
		}
		err := fmt.Errorf("%w: %#x is outside of the range for arenas", wire.ErrTaken, address)
		if address >= lowestArena && address <= highestArena-w.config.ArenaBytes {
			err = arena.Place(address)
		}
		if !errors.Is(err, wire.ErrTaken) {
			return arena, err
		}
		if _, err := conn.Write(placedReply(true)); err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
	}
	return nil, fmt.Errorf("handshake: no common place for the arena in %d proposals: %w", maxProposals, abi.MapFailed)
}

// placedReply is the answer to a proposed address.
func placedReply(taken bool) []byte {
	if taken {
		return binary.LittleEndian.AppendUint32(nil, 1)
	}
	return binary.LittleEndian.AppendUint32(nil, 0)
}

// refuse sends the program an error instead of the welcome.
func (w *Worker) refuse(reason error) error {
	conn, err := w.connection()
	if err != nil {
		return err
	}
	defer conn.Close()
	return sendRefusal(conn, reason)
}

func sendRefusal(conn net.Conn, reason error) error {
	code := gpu.Code(reason)
	if code == abi.Unknown || code == abi.Success {
		code = abi.SystemNotReady
	}
	message := wire.Welcome{Status: code, Message: reason.Error()}
	_, err := conn.Write(message.Append(nil))
	return err
}

// connection returns the program's socket, with the handshake's deadline set.
func (w *Worker) connection() (net.Conn, error) {
	file := w.files.first
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	_ = file.Close() // conn has a copy
	return conn, conn.SetDeadline(time.Now().Add(time.Duration(w.config.StartSeconds) * time.Second))
}
