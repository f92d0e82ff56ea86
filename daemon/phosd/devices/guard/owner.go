package guard

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrTaken means that another phosd has the GPUs for itself.
var ErrTaken = errors.New("another phosd has the GPUs for itself")

// roomKind is what rooms are called by; see cgroup.Name.
const roomKind = "gpus"

// ownerBytes are those of the pid namespace, the pid and the start time.
const ownerBytes = 3 * 8

// owner is the phosd that has attached a guard.
type owner struct {
	namespace uint64
	proc.Identity
}

func (o owner) encode() []byte {
	text := binary.NativeEndian.AppendUint64(nil, o.namespace)
	text = binary.NativeEndian.AppendUint64(text, uint64(o.PID))
	return binary.NativeEndian.AppendUint64(text, o.StartTicks)
}

func decodeOwner(text []byte) owner {
	return owner{binary.NativeEndian.Uint64(text), proc.Identity{
		PID: int(binary.NativeEndian.Uint64(text[8:])), StartTicks: binary.NativeEndian.Uint64(text[16:]),
	}}
}

// ended is false for one in another pid namespace: nobody here can know.
func (o owner) ended() bool { return o.namespace == cgroup.Namespace() && o.Gone() }

// attached calls a function for each guard that is attached anywhere on the machine.
func attached(each func(l link.Link, from owner) error) error {
	links := &link.Iterator{}
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil || info.Type != link.CgroupType {
			continue
		}
		from, ours := ownerOf(info.Program)
		if !ours {
			continue
		}
		if err := each(links.Link, from); err != nil {
			return err
		}
	}
	return links.Err()
}

// ownerOf says whose guard a program is.
func ownerOf(id ebpf.ProgramID) (from owner, ours bool) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return owner{}, false // it has just gone
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil || info.Name != programName {
		return owner{}, false
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		if text, found := readOwner(id); found {
			return decodeOwner(text), true
		}
	}
	return owner{}, false
}

func readOwner(id ebpf.MapID) (text []byte, found bool) {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return nil, false
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil || info.Name != roomsName || info.KeySize != 8 || info.ValueSize != ownerBytes {
		return nil, false
	}
	var room uint64
	return text, m.Iterate().Next(&room, &text)
}

// Sweep takes back what phosds have left that were killed: guards, which somebody may have pinned,
// and rooms.
func Sweep() error {
	err := attached(func(l link.Link, from owner) error {
		if from.ended() {
			return l.Detach()
		}
		return nil
	})
	var failures []error
	// Where this phosd may not look, or there is nothing to see, none was attached.
	if err = explain(err); err != nil && !errors.Is(err, ErrForbidden) && !errors.Is(err, ebpf.ErrNotSupported) {
		failures = append(failures, fmt.Errorf("sweep: %w", err))
	}
	rooms, err := cgroup.Orphans(roomKind)
	if !errors.Is(err, cgroup.ErrNone) {
		failures = append(failures, err)
	}
	for _, room := range rooms {
		failures = append(failures, leave(room.Path))
	}
	return errors.Join(failures...)
}

// alone returns ErrTaken when a phosd that runs has a guard.
func alone() error {
	return attached(func(_ link.Link, from owner) error {
		if from.ended() {
			return nil
		}
		return fmt.Errorf("%w: pid %d", ErrTaken, from.PID)
	})
}
