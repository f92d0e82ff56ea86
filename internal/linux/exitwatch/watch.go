package exitwatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// ErrNamespace is returned when the pids of this process differ from the kernel's.
var ErrNamespace = errors.New("this process is in a pid namespace, but the kernel reports pids of the host")

// machineNamespace is the inode number of the host's pid namespace, which is always the same.
const machineNamespace = 0xeffffffc

const (
	maxWatched = 4096
	ringBytes  = 16 << 10
	pidBytes   = 4
)

// Watch reports the end of processes.
type Watch struct {
	watched, ring *ebpf.Map
	program       *ebpf.Program
	attached      link.Link
	reader        *ringbuf.Reader
	reading       sync.WaitGroup

	mu    sync.Mutex // guards calls
	calls map[uint32][]*call
}

type call struct{ ended func() }

// Open starts a Watch.
func Open() (_ *Watch, err error) {
	if cgroup.Namespace() != machineNamespace {
		return nil, ErrNamespace
	}
	w := &Watch{calls: map[uint32][]*call{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("watch exits: %w", err), w.Close())
		}
	}()
	w.watched, err = ebpf.NewMap(
		&ebpf.MapSpec{Name: "phos_watched", Type: ebpf.Hash, KeySize: pidBytes, ValueSize: 1, MaxEntries: maxWatched},
	)
	if err != nil {
		return nil, err
	}
	w.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "phos_ends", Type: ebpf.RingBuf, MaxEntries: ringBytes})
	if err != nil {
		return nil, err
	}
	w.program, err = ebpf.NewProgram(
		&ebpf.ProgramSpec{
			Name:         "phos_exits",
			Type:         ebpf.RawTracepoint,
			License:      "Apache-2.0",
			Instructions: w.instructions(),
		},
	)
	if err != nil {
		return nil, err
	}
	// Kernels that do not report the last thread fail here.
	w.attached, err = link.AttachRawTracepoint(
		link.RawTracepointOptions{Name: "sched_process_exit", Program: w.program},
	)
	if err != nil {
		return nil, err
	}
	if w.reader, err = ringbuf.NewReader(w.ring); err != nil {
		return nil, err
	}
	w.reading.Go(w.read)
	return w, nil
}

// instructions is the BPF program: the last thread of a watched process reports its pid.
func (w *Watch) instructions() asm.Instructions {
	const (
		lastThread = 8 // the second argument of the tracepoint
		pidAt      = -8
	)
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R1, lastThread, asm.DWord),
		asm.And.Imm(asm.R1, 0xff),
		asm.JEq.Imm(asm.R1, 0, "out"),
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, pidAt, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, w.watched.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, pidAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMapPtr(asm.R1, w.ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, pidAt),
		asm.Mov.Imm(asm.R3, pidBytes),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	}
}

func (w *Watch) read() {
	for {
		record, err := w.reader.Read()
		if err != nil {
			return // the reader was closed
		}
		if len(record.RawSample) < pidBytes {
			continue
		}
		w.mu.Lock()
		calls := w.calls[binary.NativeEndian.Uint32(record.RawSample)]
		w.mu.Unlock()
		for _, each := range calls {
			go each.ended()
		}
	}
}

// Add makes the Watch call ended when a process ends, until forget is called. A process that has
// already ended is not reported.
func (w *Watch) Add(pid int, ended func()) (forget func(), err error) {
	added, key := &call{ended}, uint32(pid)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.watched.Put(key, uint8(1)); err != nil {
		return nil, fmt.Errorf("watch exit of pid %d: %w", pid, err)
	}
	w.calls[key] = append(w.calls[key], added)
	return func() { w.remove(key, added) }, nil
}

func (w *Watch) remove(key uint32, added *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []*call
	for _, each := range w.calls[key] {
		if each != added {
			left = append(left, each)
		}
	}
	if w.calls[key] = left; len(left) == 0 {
		delete(w.calls, key)
		_ = w.watched.Delete(key) // a later report is ignored
	}
}

// Close ends the Watch. Add and forget must not be called afterwards.
func (w *Watch) Close() error {
	var failures []error
	if w.attached != nil {
		failures = append(failures, w.attached.Close())
	}
	if w.reader != nil {
		failures = append(failures, w.reader.Close())
	}
	w.reading.Wait()
	if w.program != nil {
		failures = append(failures, w.program.Close())
	}
	for _, each := range []*ebpf.Map{w.watched, w.ring} {
		if each != nil {
			failures = append(failures, each.Close())
		}
	}
	return errors.Join(failures...)
}
