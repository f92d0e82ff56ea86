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
	// MaxGPUs is the maximum number of GPUs in a ledger.
	MaxGPUs = 24
	// Slots is the maximum number of workers that share the GPUs of a machine.
	Slots = 1024

	magic       = 0x52474c534f4850 // "PHOSLGR"
	version     = 2
	headerBytes = 4096
	cellBytes   = 24
)

// ErrFormat is returned for files that are not ledgers of this version.
var ErrFormat = errors.New("not a memory ledger of this version")

// FullError is returned by a reservation that exceeds the GPU's capacity.
type FullError struct {
	GPU                   int
	Bytes, Used, Capacity uint64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("GPU %d: cannot reserve %d bytes, %d of %d in use", e.GPU, e.Bytes, e.Used, e.Capacity)
}

// Unwrap returns the driver's code.
func (e *FullError) Unwrap() error { return abi.OutOfMemory }

// Ledger is a mapped ledger. Its methods are safe for concurrent use; a slot belongs to one
// process.
type Ledger struct {
	// Refused, if not nil, is called with each *ShareError of a GPU's memory. It must not call the
	// ledger.
	Refused func(error)

	file  *os.File
	words []word
	gpus  int
	hosts bool // there is a row of cells for host memory

	mu     sync.Mutex // one reservation of this process at a time, so that a cell has one writer
	closed bool
}

// Create creates a ledger file, replacing an existing one, with one capacity in bytes per GPU.
func Create(path string, capacities []uint64) (*Ledger, error) {
	if len(capacities) == 0 || len(capacities) > MaxGPUs {
		return nil, fmt.Errorf("create ledger %s: %d GPUs, want 1 to %d", path, len(capacities), MaxGPUs)
	}
	// Do not truncate the old file: a worker of an earlier phosd may still have it mapped.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	if err := file.Truncate(fileBytes(len(capacities) + 1)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	l := &Ledger{file: file, gpus: len(capacities), hosts: true}
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

// Open maps the ledger in a file. The ledger takes over the file and closes it with Close.
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
	stat, err := file.Stat()
	if err != nil || stat.Size() < fileBytes(l.gpus) {
		return nil, fmt.Errorf("open ledger %s: %w", file.Name(), ErrFormat)
	}
	l.hosts = stat.Size() >= fileBytes(l.gpus+1)
	if err := l.mapWords(); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", file.Name(), err)
	}
	return l, nil
}

// fileBytes returns the size of a ledger file with one row of cells for each GPU, and perhaps one
// for host memory.
func fileBytes(rows int) int64 { return headerBytes + int64(rows)*Slots*cellBytes }

// File returns the open file, for passing to a worker.
func (l *Ledger) File() *os.File { return l.file }

// GPUs returns the number of GPUs.
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

// maxAttempts is how often a reservation retries because of undecided claims of others. Claims are
// decided within microseconds, so this is reached only if a worker died in between and phosd has
// not cleared its slot yet.
const maxAttempts = 2000

// reserve charges bytes of a GPU to a slot, for the program or for the worker itself. The error is
// a *FullError if the GPU has too little, a *ShareError if the tenant may not have that much, or
// os.ErrClosed.
//
// It writes the claim into the slot's claim word before it sums up all slots. If two claims race,
// the one that sums up later sees the other, so both cannot succeed if there is room for only one.
// If both fail although one would fit, each has seen an undecided claim: both withdraw and retry
// after a random time. A reservation is also retried if another one was granted during the sum,
// because the sum may have counted its bytes twice: in a slot that released them, and in the slot
// that has them now.
func (l *Ledger) reserve(gpu, slot int, bytes uint64, own bool) error {
	if err := l.check(gpu, slot); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	held, claim, capacity := l.heldOrOwn(gpu, slot, own), l.claim(gpu, slot), l.capacity(gpu).Load()
	for attempt := 0; ; attempt++ {
		if bytes > capacity {
			return &FullError{GPU: gpu, Bytes: bytes, Used: l.heldBytes(gpu), Capacity: capacity}
		}
		before := l.grants(gpu).Load()
		l.include(slot)
		claim.Store(bytes)
		others, undecided := l.others(gpu, slot)
		unsure, shareErr := l.checkShare(gpu, slot, bytes)
		undecided = undecided || unsure
		if mine := l.total(gpu, slot); shareErr == nil && others <= capacity && mine <= capacity-others &&
			bytes <= capacity-others-mine {
			l.grants(gpu).Add(1) // first, so that a sum that counts the grant sees the new count
			held.Add(bytes)      // before the claim is cleared: it may count twice, but is never missed
			claim.Store(0)
			return nil
		}
		claim.Store(0)
		moved := undecided || l.grants(gpu).Load() != before
		if !moved || attempt == maxAttempts {
			if shareErr != nil {
				if l.Refused != nil {
					l.Refused(shareErr)
				}
				return shareErr
			}
			return &FullError{GPU: gpu, Bytes: bytes, Used: l.heldBytes(gpu), Capacity: capacity}
		}
		// There is no notification when another process has decided.
		time.Sleep(time.Duration(rand.IntN(50*(1+attempt/10))) * time.Microsecond) //nolint:forbidigo // see above
	}
}

// include makes sums include a slot. It is called before the slot's claim: a sum that does not
// include the slot was then taken before this slot's own sum, which sees the other claim.
func (l *Ledger) include(slot int) {
	for {
		seats := l.slotsUsed().Load()
		if uint64(slot) < seats || l.slotsUsed().CompareAndSwap(seats, uint64(slot)+1) {
			return
		}
	}
}

// usedSlots returns the number of slots, from the first, that were ever used. A misbehaving worker
// may have overwritten the word, so it is clamped.
func (l *Ledger) usedSlots() int { return int(min(l.slotsUsed().Load(), Slots)) }

// others returns the sum of what all other slots hold and claim, and whether it includes a claim.
func (l *Ledger) others(gpu, slot int) (sum uint64, undecided bool) {
	for other := range l.usedSlots() {
		if other == slot {
			continue
		}
		// Read the claim first: otherwise a claim that is granted in between would be missed.
		claimed := l.claim(gpu, other).Load()
		undecided = undecided || claimed != 0
		sum += claimed + l.total(gpu, other)
	}
	return sum, undecided
}

// heldBytes returns the sum of what is held, without claims. It is repeated if a reservation was
// granted during the sum, for the reason given at reserve. If that does not end, the capacity is
// the upper bound.
func (l *Ledger) heldBytes(gpu int) (sum uint64) {
	for range maxAttempts {
		before := l.grants(gpu).Load()
		sum = 0
		for slot := range l.usedSlots() {
			sum += l.total(gpu, slot)
		}
		if l.grants(gpu).Load() == before {
			break
		}
	}
	return min(sum, l.capacity(gpu).Load())
}

// Release releases bytes. Releasing more than the slot holds is a bug of the caller and leaves 0.
func (l *Ledger) Release(gpu, slot int, bytes uint64) { l.release(gpu, slot, bytes, false) }

// release is Release, for the worker's own memory if own is set.
func (l *Ledger) release(gpu, slot int, bytes uint64, own bool) {
	if l.check(gpu, slot) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	held := l.heldOrOwn(gpu, slot, own)
	held.Store(held.Load() - min(bytes, held.Load()))
}

// Clear empties the slot of a dead worker, or a slot before its reuse.
func (l *Ledger) Clear(slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || slot < 0 || slot >= Slots {
		return
	}
	tenants, shift := l.tenants(slot)
	tenants.Store(tenants.Load() &^ (0xffff << shift))
	if l.hosts {
		l.host(slot).Store(0)
		l.hostClaim(slot).Store(0)
	}
	for _, first := range []int{standbyWord, wantedWord, unreclaimedWord} {
		word, bit := l.bit(first, slot)
		word.And(^bit)
	}
	for gpu := range l.gpus {
		l.held(gpu, slot).Store(0)
		l.own(gpu, slot).Store(0)
		l.claim(gpu, slot).Store(0)
	}
}

// Usage returns the bytes of a GPU in use by all slots, and its capacity; zeros if the GPU does not
// exist.
func (l *Ledger) Usage(gpu int) (used, capacity uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.check(gpu, 0) != nil {
		return 0, 0
	}
	return l.heldBytes(gpu), l.capacity(gpu).Load()
}

// SlotUsage returns the bytes of a GPU that a slot holds.
func (l *Ledger) SlotUsage(gpu, slot int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.check(gpu, slot) != nil {
		return 0
	}
	return l.total(gpu, slot)
}

// check returns an error if the GPU or the slot does not exist.
func (l *Ledger) check(gpu, slot int) error {
	if gpu < 0 || gpu >= l.gpus || slot < 0 || slot >= Slots {
		return fmt.Errorf(
			"ledger of %d GPUs and %d slots has no GPU %d, slot %d: %w",
			l.gpus,
			Slots,
			gpu,
			slot,
			abi.InvalidValue,
		)
	}
	return nil
}
