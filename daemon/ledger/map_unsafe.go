package ledger

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// word is one 64-bit word of the file. Atomic operations on it order the processes that share the mapping.
type word = atomic.Uint64

// The header: magic, version and number of GPUs, then the capacities, the counts of grants and the number of slots ever
// used. Cells follow at headerBytes.
const (
	capacityWord = 2
	grantsWord   = capacityWord + MaxGPUs
	seatsWord    = grantsWord + MaxGPUs
)

func readHeader(header [16]byte) (gpus int, err error) {
	second := binary.NativeEndian.Uint64(header[8:])
	gpus = int(second >> 32)
	if binary.NativeEndian.Uint64(header[:]) != magic || uint32(second) != version || gpus < 1 || gpus > MaxGPUs {
		return 0, ErrDamaged
	}
	return gpus, nil
}

// mapWords maps the file and lays words over it. The slice never outlives the mapping: Close ends both under mu.
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

// seats is one more than the highest slot that ever reserved anything, so that sums need not read the others.
func (l *Ledger) seats() *word { return &l.words[seatsWord] }

// held is what a slot has of a GPU.
func (l *Ledger) held(gpu, slot int) *word { return &l.words[cell(gpu, slot)] }

// claim is what a slot is about to take, while that is undecided.
func (l *Ledger) claim(gpu, slot int) *word { return &l.words[cell(gpu, slot)+1] }

func cell(gpu, slot int) int { return (headerBytes + (gpu*Slots+slot)*cellBytes) / 8 }
