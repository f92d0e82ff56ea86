package guard

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// ErrForbidden is returned when the kernel does not let this process load a BPF program.
var ErrForbidden = errors.New(
	"this process may not load BPF programs: it needs CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN",
)

// Names of the program and of its map of rooms: at most 15 bytes.
const (
	programName = "phos_guard"
	roomsName   = "phos_rooms"
)

const (
	maxMajors = 64
	ringBytes = 64 << 10
)

// loaded is the program with its maps.
type loaded struct {
	program *ebpf.Program
	// majors has the guarded majors as keys, rooms the id of the room, with its owner for other
	// phosds.
	majors, rooms *ebpf.Map
	// denials is the ring of denied opens.
	denials *ebpf.Map
}

// load loads the program without attaching it.
func load() (_ *loaded, err error) {
	l := &loaded{}
	defer func() {
		if err != nil {
			err = errors.Join(explain(err), l.close())
		}
	}()
	for _, each := range []struct {
		place **ebpf.Map
		spec  ebpf.MapSpec
	}{
		{&l.majors, ebpf.MapSpec{Name: "phos_majors", Type: ebpf.Hash, KeySize: 4, ValueSize: 1, MaxEntries: maxMajors}},
		{&l.rooms, ebpf.MapSpec{Name: roomsName, Type: ebpf.Hash, KeySize: 8, ValueSize: ownerBytes, MaxEntries: 1}},
		{&l.denials, ebpf.MapSpec{Name: "phos_denials", Type: ebpf.RingBuf, MaxEntries: ringBytes}},
	} {
		if *each.place, err = ebpf.NewMap(&each.spec); err != nil {
			return nil, err
		}
	}
	// Kernels before 6.1 do not let such a program read the pid.
	for _, withPID := range []bool{true, false} {
		l.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: programName, Type: ebpf.CGroupDevice, AttachType: ebpf.AttachCGroupDevice, License: "Apache-2.0",
			Instructions: l.instructions(withPID),
		})
		if err == nil {
			return l, nil
		}
	}
	return nil, err
}

// explain adds what this process or kernel lacks.
func explain(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("this kernel cannot guard devices (needed: Linux 5.11 with CONFIG_CGROUP_BPF): %w", err)
	}
	return err
}

func (l *loaded) close() error {
	var failures []error
	if l.program != nil {
		failures = append(failures, l.program.Close())
	}
	for _, each := range []*ebpf.Map{l.majors, l.rooms, l.denials} {
		if each != nil {
			failures = append(failures, each.Close())
		}
	}
	return errors.Join(failures...)
}

// The program's argument (struct bpf_cgroup_dev_ctx): the kinds of device and of access in one
// word, then major and minor.
const (
	askedAccess = 0
	askedMajor  = 4
	askedMinor  = 8

	kindMask        = 0xffff
	kindCharacter   = 2
	accessShift     = 16
	accessReadWrite = 2 | 4 // mknod is 1, and is allowed
)

// Offsets from the frame pointer.
const (
	roomAt   = -8
	majorAt  = -16
	denialAt = -16 - denialBytes
)

const (
	refuse = 0
	allow  = 1
)

// Registers that calls preserve: the argument, and the major.
const (
	asked = asm.R6
	major = asm.R7
)

// instructions returns the program: character devices of guarded majors can be opened in the room
// only. Denied opens are reported.
func (l *loaded) instructions(withPID bool) asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asked, asm.R1),
		asm.LoadMem(asm.R1, asked, askedAccess, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.And.Imm(asm.R2, kindMask),
		asm.JNE.Imm(asm.R2, kindCharacter, "allow"),
		asm.RSh.Imm(asm.R1, accessShift),
		asm.And.Imm(asm.R1, accessReadWrite),
		asm.JEq.Imm(asm.R1, 0, "allow"),
		asm.LoadMem(major, asked, askedMajor, asm.Word),
		asm.StoreMem(asm.RFP, majorAt, major, asm.Word),
	}
	code = append(code, lookup(l.majors, majorAt)...)
	code = append(code,
		asm.JEq.Imm(asm.R0, 0, "allow"),
		asm.FnGetCurrentCgroupId.Call(),
		asm.StoreMem(asm.RFP, roomAt, asm.R0, asm.DWord),
	)
	code = append(code, lookup(l.rooms, roomAt)...)
	code = append(code, asm.JNE.Imm(asm.R0, 0, "allow"))
	code = append(code, l.report(withPID)...)
	return append(code,
		asm.Mov.Imm(asm.R0, refuse),
		asm.Return(),
		asm.Mov.Imm(asm.R0, allow).WithSymbol("allow"),
		asm.Return(),
	)
}

// lookup leaves 0 in R0 if a map does not have the key that is at an offset of the stack.
func lookup(in *ebpf.Map, at int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, in.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, at),
		asm.FnMapLookupElem.Call(),
	}
}

// report writes a denial to the ring. If the ring is full, it is lost.
func (l *loaded) report(withPID bool) asm.Instructions {
	code := asm.Instructions{asm.Mov.Imm(asm.R0, 0)}
	if withPID {
		code = asm.Instructions{asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32)}
	}
	return append(code,
		asm.StoreMem(asm.RFP, denialAt+denialPID, asm.R0, asm.Word),
		asm.FnGetCurrentUidGid.Call(),
		asm.StoreMem(asm.RFP, denialAt+denialUID, asm.R0, asm.Word),
		asm.StoreMem(asm.RFP, denialAt+denialMajor, major, asm.Word),
		asm.LoadMem(asm.R1, asked, askedMinor, asm.Word),
		asm.StoreMem(asm.RFP, denialAt+denialMinor, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, denialAt+denialName),
		asm.Mov.Imm(asm.R2, nameBytes),
		asm.FnGetCurrentComm.Call(),
		asm.LoadMapPtr(asm.R1, l.denials.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, denialAt),
		asm.Mov.Imm(asm.R3, denialBytes),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
	)
}
