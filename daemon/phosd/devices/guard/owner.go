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

// ErrTaken is returned when another phosd guards the GPUs.
var ErrTaken = errors.New("another phosd has exclusive use of the GPUs")

// roomKind is in the names of rooms; see cgroup.Name.
const roomKind = "gpus"

// ownerBytes is the size of pid namespace, pid and start time.
const ownerBytes = 3 * 8

// owner is the phosd that has attached a program.
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

// ended reports whether the owner has ended; false if it is in another pid namespace.
func (o owner) ended() bool { return o.namespace == cgroup.Namespace() && o.Gone() }

// attached calls a function for each of our programs that is attached anywhere on the machine.
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

// ownerOf returns the owner of a program, if it is one of ours.
func ownerOf(id ebpf.ProgramID) (from owner, ours bool) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return owner{}, false // just unloaded
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

// Sweep removes what killed phosds have left: rooms, and programs, which root may have pinned.
func Sweep() error {
	err := attached(func(l link.Link, from owner) error {
		if from.ended() {
			return l.Detach()
		}
		return nil
	})
	var failures []error
	// Without the right or the kernel support for BPF, no program was attached.
	if err = explain(err); err != nil && !errors.Is(err, ErrForbidden) && !errors.Is(err, ebpf.ErrNotSupported) {
		failures = append(failures, fmt.Errorf("sweep: %w", err))
	}
	rooms, err := cgroup.Orphans(roomKind)
	if !errors.Is(err, cgroup.ErrNone) {
		failures = append(failures, err)
	}
	for _, room := range rooms {
		failures = append(failures, removeRoom(room.Path))
	}
	return errors.Join(failures...)
}

// checkAlone returns ErrTaken when a running phosd has attached a program.
func checkAlone() error {
	return attached(func(_ link.Link, from owner) error {
		if from.ended() {
			return nil
		}
		return fmt.Errorf("%w: pid %d", ErrTaken, from.PID)
	})
}
