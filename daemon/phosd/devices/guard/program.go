package guard

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// ErrForbidden means that the kernel lets this process load no program.
var ErrForbidden = errors.New(
	"this process may not load programs into the kernel (bpf): it needs CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN",
)

// How the kernel lists the program and its table of rooms: at most 15 bytes.
const (
	programName = "phos_guard"
	roomsName   = "phos_rooms"
)

const (
	mostMajors = 64
	ringBytes  = 64 << 10
)

// loaded is the program with what it looks at.
type loaded struct {
	program *ebpf.Program
	// majors has the guarded ones as keys, rooms the id of the cgroup that is let in, with its owner
	// for another phosd to see.
	majors, rooms *ebpf.Map
	// denials is what the program tells.
	denials *ebpf.Map
}

// load gets the program into the kernel; it does nothing yet.
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
		{&l.majors, ebpf.MapSpec{Name: "phos_majors", Type: ebpf.Hash, KeySize: 4, ValueSize: 1, MaxEntries: mostMajors}},
		{&l.rooms, ebpf.MapSpec{Name: roomsName, Type: ebpf.Hash, KeySize: 8, ValueSize: ownerBytes, MaxEntries: 1}},
		{&l.denials, ebpf.MapSpec{Name: "phos_denials", Type: ebpf.RingBuf, MaxEntries: ringBytes}},
	} {
		if *each.place, err = ebpf.NewMap(&each.spec); err != nil {
			return nil, err
		}
	}
	// Kernels before 6.1 do not tell such a program the pid.
	for _, sayPid := range []bool{true, false} {
		l.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: programName, Type: ebpf.CGroupDevice, AttachType: ebpf.AttachCGroupDevice, License: "Apache-2.0",
			Instructions: l.instructions(sayPid),
		})
		if err == nil {
			return l, nil
		}
	}
	return nil, err
}

func explain(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("this kernel cannot do it (Linux 5.11 with CONFIG_CGROUP_BPF can): %w", err)
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

// What the kernel asks (struct bpf_cgroup_dev_ctx): the kind of device and of access in one word,
// then its numbers.
const (
	askedAccess = 0
	askedMajor  = 4
	askedMinor  = 8

	kindMask        = 0xffff
	kindCharacter   = 2
	accessShift     = 16
	accessReadWrite = 2 | 4 // making a node is 1, and harms nobody
)

// Places below the frame pointer.
const (
	roomAt   = -8
	majorAt  = -16
	denialAt = -16 - denialBytes
)

const (
	refuse = 0
	admit  = 1
)

// What calls into the kernel leave alone: what it asks, and the major of that.
const (
	asked = asm.R6
	major = asm.R7
)

// instructions are the program: character devices of guarded majors are opened in the room only.
// Who is refused is told of.
func (l *loaded) instructions(sayPid bool) asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asked, asm.R1),
		asm.LoadMem(asm.R1, asked, askedAccess, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.And.Imm(asm.R2, kindMask),
		asm.JNE.Imm(asm.R2, kindCharacter, "admit"),
		asm.RSh.Imm(asm.R1, accessShift),
		asm.And.Imm(asm.R1, accessReadWrite),
		asm.JEq.Imm(asm.R1, 0, "admit"),
		asm.LoadMem(major, asked, askedMajor, asm.Word),
		asm.StoreMem(asm.RFP, majorAt, major, asm.Word),
	}
	code = append(code, lookup(l.majors, majorAt)...)
	code = append(code,
		asm.JEq.Imm(asm.R0, 0, "admit"),
		asm.FnGetCurrentCgroupId.Call(),
		asm.StoreMem(asm.RFP, roomAt, asm.R0, asm.DWord),
	)
	code = append(code, lookup(l.rooms, roomAt)...)
	code = append(code, asm.JNE.Imm(asm.R0, 0, "admit"))
	code = append(code, l.tell(sayPid)...)
	return append(code,
		asm.Mov.Imm(asm.R0, refuse),
		asm.Return(),
		asm.Mov.Imm(asm.R0, admit).WithSymbol("admit"),
		asm.Return(),
	)
}

// lookup leaves 0 in R0 when a map has no key as it lies at a place of the stack.
func lookup(in *ebpf.Map, at int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, in.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, at),
		asm.FnMapLookupElem.Call(),
	}
}

// tell puts a denial on the stack and into the ring. A ring that is full loses it, which changes
// nothing for the process.
func (l *loaded) tell(sayPid bool) asm.Instructions {
	code := asm.Instructions{asm.Mov.Imm(asm.R0, 0)}
	if sayPid {
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
