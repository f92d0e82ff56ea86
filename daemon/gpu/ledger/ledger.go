package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
)

const (
	// MaxGPUs is the number of GPUs a ledger can have.
	MaxGPUs = 24
	// Slots is the number of workers that can share the GPUs of a machine.
	Slots = 1024

	magic       = 0x52474c534f4850 // "PHOSLGR"
	version     = 2
	headerBytes = 4096
	cellBytes   = 24
)

// ErrDamaged says that a file is not a ledger of this version.
var ErrDamaged = errors.New("not a memory ledger of this version")

// FullError is a reservation that the GPU has no room for.
type FullError struct {
	GPU                   int
	Bytes, Used, Capacity uint64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("gpu %d: %d bytes wanted, %d of %d in use", e.GPU, e.Bytes, e.Used, e.Capacity)
}

// Unwrap gives the driver's code.
func (e *FullError) Unwrap() error { return abi.OutOfMemory }

// Ledger is a mapped ledger. Its methods may be called from several goroutines; a slot belongs to
// one process.
type Ledger struct {
	file  *os.File
	words []word
	gpus  int

	mu     sync.Mutex // one reservation of this process at a time, so that a cell has one writer
	closed bool
}

// Create makes a ledger file, replacing what was there, with one capacity in bytes per GPU.
func Create(path string, capacities []uint64) (*Ledger, error) {
	if len(capacities) == 0 || len(capacities) > MaxGPUs {
		return nil, fmt.Errorf("create ledger %s: %d gpus, 1 to %d possible", path, len(capacities), MaxGPUs)
	}
	// A new file, not the old one truncated: a worker of a former daemon may still have that mapped.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	if err := file.Truncate(fileBytes(len(capacities))); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	l := &Ledger{file: file, gpus: len(capacities)}
	if err := l.mapWords(); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("create ledger %s: %w", path, err)
	}
	for gpu, capacity := range capacities {
		l.capacity(gpu).Store(capacity)
	}
	l.words[1].Store(version | uint64(len(capacities))<<32)
	l.words[0].Store(magic)
	return l, nil
}

// Open maps the ledger in a file, which it keeps and closes with Close.
func Open(file *os.File) (*Ledger, error) {
	var header [16]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", file.Name(), err)
	}
	l := &Ledger{file: file}
	var err error
	if l.gpus, err = readHeader(header); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", file.Name(), err)
	}
	if stat, err := file.Stat(); err != nil || stat.Size() < fileBytes(l.gpus) {
		return nil, fmt.Errorf("open ledger %s: %w", file.Name(), ErrDamaged)
	}
	if err := l.mapWords(); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", file.Name(), err)
	}
	return l, nil
}

func fileBytes(gpus int) int64 { return headerBytes + int64(gpus)*Slots*cellBytes }

// File is the open file, for passing to a worker.
func (l *Ledger) File() *os.File { return l.file }

// GPUs is the number of GPUs.
func (l *Ledger) GPUs() int { return l.gpus }

// Close unmaps the ledger and closes its file. Reservations stay.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return errors.Join(l.unmapWords(), l.file.Close())
}

// attempts bounds how often a reservation steps back before other undecided ones. They are decided
// within microseconds, so the bound is met only where a worker died undecided and phosd has not
// cleared its slot.
const attempts = 2000

// reserve takes bytes of a GPU for a slot, or returns a *FullError. They are the program's, or the
// worker's own.
//
// A claim is written into the slot's claim word before the sum over all slots is taken. Of two
// claims that race, the one that sums later sees the other, so both cannot pass where there is room
// for one. When neither passes although one could, both have seen an undecided claim; they step
// back and try again after a random time. They also do where another reservation was granted during
// the sum, which may then count bytes twice: as the one slot had them and as the other has them
// now.
func (l *Ledger) reserve(gpu, slot int, bytes uint64, own bool) error {
	if err := l.check(gpu, slot); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	held, claim, capacity := l.part(gpu, slot, own), l.claim(gpu, slot), l.capacity(gpu).Load()
	for attempt := 0; ; attempt++ {
		if bytes > capacity {
			return &FullError{GPU: gpu, Bytes: bytes, Used: l.settled(gpu), Capacity: capacity}
		}
		before := l.grants(gpu).Load()
		l.seat(slot)
		claim.Store(bytes)
		others, undecided := l.others(gpu, slot)
		if mine := l.all(gpu, slot); others <= capacity && mine <= capacity-others && bytes <= capacity-others-mine {
			l.grants(gpu).Add(1) // before the grant itself, so that who sees this one in a sum sees that it is new
			held.Add(bytes)      // before the claim goes: between the two it counts twice, never not at all
			claim.Store(0)
			return nil
		}
		claim.Store(0)
		moved := undecided || l.grants(gpu).Load() != before
		if !moved || attempt == attempts {
			return &FullError{GPU: gpu, Bytes: bytes, Used: l.settled(gpu), Capacity: capacity}
		}
		// Nothing tells when another process has decided.
		time.Sleep(time.Duration(rand.IntN(50*(1+attempt/10))) * time.Microsecond) //nolint:forbidigo // see above
	}
}

// seat makes sums reach a slot. It comes before the slot's claim: a sum that misses the claim was
// then taken by one that this slot's own sum sees.
func (l *Ledger) seat(slot int) {
	for {
		seats := l.seats().Load()
		if uint64(slot) < seats || l.seats().CompareAndSwap(seats, uint64(slot)+1) {
			return
		}
	}
}

// seated is the number of slots, from the first, that were ever used. The word may hold anything
// after a worker went mad.
func (l *Ledger) seated() int { return int(min(l.seats().Load(), Slots)) }

// others sums what all other slots hold and claim, and says whether a claim was among it.
func (l *Ledger) others(gpu, slot int) (sum uint64, undecided bool) {
	for other := range l.seated() {
		if other == slot {
			continue
		}
		// The claim first: in the other order a claim that becomes held in between would be missed.
		claimed := l.claim(gpu, other).Load()
		undecided = undecided || claimed != 0
		sum += claimed + l.all(gpu, other)
	}
	return sum, undecided
}

// settled sums what is held, claims aside. A sum during which something was granted is taken again,
// for the reason given at Reserve; where that never ends, the capacity bounds the answer.
func (l *Ledger) settled(gpu int) (sum uint64) {
	for range attempts {
		before := l.grants(gpu).Load()
		sum = 0
		for slot := range l.seated() {
			sum += l.all(gpu, slot)
		}
		if l.grants(gpu).Load() == before {
			break
		}
	}
	return min(sum, l.capacity(gpu).Load())
}

// Release gives bytes back. More than the slot holds is a bug of the caller and leaves the slot at
// 0.
func (l *Ledger) Release(gpu, slot int, bytes uint64) { l.release(gpu, slot, bytes, false) }

func (l *Ledger) release(gpu, slot int, bytes uint64, own bool) {
	if l.check(gpu, slot) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	held := l.part(gpu, slot, own)
	held.Store(held.Load() - min(bytes, held.Load()))
}

// Clear empties a slot whose worker is dead, or before a new worker gets it.
func (l *Ledger) Clear(slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || slot < 0 || slot >= Slots {
		return
	}
	for _, first := range []int{spareWord, wantedWord, keepsWord} {
		word, bit := l.bit(first, slot)
		word.And(^bit)
	}
	for gpu := range l.gpus {
		l.held(gpu, slot).Store(0)
		l.own(gpu, slot).Store(0)
		l.claim(gpu, slot).Store(0)
	}
}

// Usage reports the bytes in use of a GPU by all slots, and its capacity; zeroes for a GPU that is
// not there.
func (l *Ledger) Usage(gpu int) (used, capacity uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.check(gpu, 0) != nil {
		return 0, 0
	}
	return l.settled(gpu), l.capacity(gpu).Load()
}

// SlotUsage reports the bytes that one slot holds of a GPU.
func (l *Ledger) SlotUsage(gpu, slot int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.check(gpu, slot) != nil {
		return 0
	}
	return l.all(gpu, slot)
}

func (l *Ledger) check(gpu, slot int) error {
	if gpu < 0 || gpu >= l.gpus || slot < 0 || slot >= Slots {
		return fmt.Errorf(
			"ledger of %d gpus and %d slots has no gpu %d, slot %d: %w",
			l.gpus,
			Slots,
			gpu,
			slot,
			abi.InvalidValue,
		)
	}
	return nil
}
