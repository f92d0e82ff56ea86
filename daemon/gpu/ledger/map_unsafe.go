package ledger

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// word is one 64-bit word of the file. Atomic operations on it order the processes that share the
// mapping.
type word = atomic.Uint64

// The header: magic, version and number of GPUs, then the capacities, the counts of grants, the
// number of slots ever used, and of each slot a bit that it is spare, and one that it is wanted,
// with a count of such wishes; of each slot a bit that it keeps memory that is on no account, and
// of each GPU how often somebody has asked for that. Cells follow at headerBytes.
const (
	capacityWord = 2
	grantsWord   = capacityWord + MaxGPUs
	seatsWord    = grantsWord + MaxGPUs
	spareWord    = seatsWord + 1
	wantedWord   = spareWord + Slots/64
	callsWord    = wantedWord + Slots/64
	keepsWord    = callsWord + 1
	shortWord    = keepsWord + Slots/64
)

func readHeader(header [16]byte) (gpus int, err error) {
	second := binary.NativeEndian.Uint64(header[8:])
	gpus = int(second >> 32)
	if binary.NativeEndian.Uint64(header[:]) != magic || uint32(second) != version || gpus < 1 || gpus > MaxGPUs {
		return 0, ErrDamaged
	}
	return gpus, nil
}

// mapWords maps the file and lays words over it. The slice never outlives the mapping: Close ends
// both under mu.
func (l *Ledger) mapWords() error {
	memory, err := unix.Mmap(int(l.file.Fd()), 0, int(fileBytes(l.gpus)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	l.words = unsafe.Slice((*word)(unsafe.Pointer(&memory[0])), len(memory)/8)
	return nil
}

func (l *Ledger) unmapWords() error {
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&l.words[0])), len(l.words)*8)
	l.words = nil
	return unix.Munmap(memory)
}

func (l *Ledger) capacity(gpu int) *word { return &l.words[capacityWord+gpu] }

// grants counts the reservations that were granted.
func (l *Ledger) grants(gpu int) *word { return &l.words[grantsWord+gpu] }

// shortages counts the wishes for what others keep of a GPU.
func (l *Ledger) shortages(gpu int) *word { return &l.words[shortWord+gpu] }

// seats is one more than the highest slot that ever reserved anything, so that sums need not read
// the others.
func (l *Ledger) seats() *word { return &l.words[seatsWord] }

// held is what a slot has of a GPU because its program wants it.
func (l *Ledger) held(gpu, slot int) *word { return &l.words[cell(gpu, slot)] }

// claim is what a slot is about to take, while that is undecided.
func (l *Ledger) claim(gpu, slot int) *word { return &l.words[cell(gpu, slot)+1] }

// own is what a slot has besides.
func (l *Ledger) own(gpu, slot int) *word { return &l.words[cell(gpu, slot)+2] }

// bit is that of a slot in a table of bits.
func (l *Ledger) bit(first, slot int) (*word, uint64) {
	return &l.words[first+slot/64], 1 << (slot % 64)
}

// calls counts the wishes for memory of spare slots.
func (l *Ledger) calls() uint32 { return uint32(l.words[callsWord].Load()) }

// callsWait is the half of the word that counts, on which processes sleep: machines that phos runs
// on have it first.
func (l *Ledger) callsWait() *uint32 { return (*uint32)(unsafe.Pointer(&l.words[callsWord])) }

// call wakes all who sleep.
func (l *Ledger) call() {
	l.words[callsWord].Add(1)
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(l.callsWait())), futexWake, math.MaxInt32, 0, 0, 0)
}

// sleep returns when there is another count than was seen, or for no reason.
func (l *Ledger) sleep(seen uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(l.callsWait())), futexWait, uintptr(seen), 0, 0, 0)
}

// Between processes: neither is a private one.
const (
	futexWait = 0
	futexWake = 1
)

func cell(gpu, slot int) int { return (headerBytes + (gpu*Slots+slot)*cellBytes) / 8 }
