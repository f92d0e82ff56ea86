package session

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Progress is what a session is doing, for status and for finding programs that hang.
type Progress struct {
	// Made counts calls that arrived, Completed those that were answered or submitted.
	Made, Completed uint64
	// Awaited counts those of the calls that arrived here, not before a restore, whose answer the
	// program waited for. Each costs it a round trip.
	Awaited uint64
	// Oldest is what has been waited for longest, nil when nothing is.
	Oldest *Pending
	// Kernels are names of the last different kernels launched, newest first.
	Kernels []string
	GPUs    []GPUUse
	// PinnedBytes is what the program has of the arena.
	PinnedBytes uint64
	// Fault is what poisoned a context of the program, empty while all are healthy.
	Fault string
	// Objects is the number of living objects.
	Objects int
	// Busy says that a handler did not end in time, and that Oldest, Kernels, GPUs and Objects are
	// therefore missing.
	Busy bool
	// Rank and WorldSize are the program's place in a distributed job; WorldSize is 0 where the
	// environment does not say.
	Rank, WorldSize int
}

// Pending is a call, or the work of a stream, that is not over.
type Pending struct {
	// Call is the call that waits, "work" for the work of a stream.
	Call string
	// Stream is the handle of the stream, 0 for a default one.
	Stream abi.Handle
	Age    time.Duration
}

// GPUUse is what a program uses of one GPU.
type GPUUse struct {
	Ordinal  int // the machine's
	Name     string
	Contexts int
	// AllocatedBytes is what the program asked for, BackedBytes what the GPU gave for it.
	AllocatedBytes, BackedBytes uint64
}

type pendingCall struct {
	number abi.Call
	stream abi.Handle
	since  time.Time
}

// patience is how long Progress waits for a handler to end.
const patience = 100 * time.Millisecond

// Progress looks at the session. The age of a stream's work counts from the first call of Progress
// that saw it. A program can keep a handler busy by not serving a copy; Progress then returns only
// what is known without the lock.
func (s *Session) Progress() Progress {
	p := Progress{
		Made: s.made.Load(), Awaited: s.awaited.Load(), Completed: s.completed.Load(),
		PinnedBytes: s.memory.PinnedBytes(),
	}
	p.Rank, p.WorldSize = rank(s.core.Options.Getenv)
	p.Fault = s.fault()
	if !s.lockSoon() {
		p.Busy = true
		return p
	}
	defer s.core.Mu.Unlock()
	s.look(&p)
	return p
}

// fault is the first fault of a GPU context. It needs no lock.
func (s *Session) fault() string {
	for _, d := range s.core.Devices {
		if c := d.Opened.Load(); c != nil {
			if err := (*c).Fault(); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

// lockSoon takes the lock if it can be had within patience.
func (s *Session) lockSoon() bool {
	if s.core.Mu.TryLock() {
		return true
	}
	soon, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.lockBefore(soon.Done()) == nil
}

// lockBefore takes the lock if it can be had before the deadline; ErrBusy where it cannot.
func (s *Session) lockBefore(deadline <-chan struct{}) error {
	if s.core.Mu.TryLock() {
		return nil
	}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if s.core.Mu.TryLock() {
				return nil
			}
		case <-deadline:
			return fmt.Errorf("%w: a call is being handled", ErrBusy)
		}
	}
}

// look fills in what takes the lock.
func (s *Session) look(p *Progress) {
	p.Kernels, p.Objects = s.code.RecentKernels(), s.core.Objects.Len()
	for _, d := range s.core.Devices {
		use := GPUUse{Ordinal: d.Machine, Name: d.Info.Name, Contexts: d.Users}
		if d.Heap != nil {
			use.AllocatedBytes, use.BackedBytes = d.Heap.Usage()
		}
		p.GPUs = append(p.GPUs, use)
	}
	at := time.Now()
	older := func(call string, stream abi.Handle, since time.Time) {
		if age := at.Sub(since); p.Oldest == nil || age > p.Oldest.Age {
			p.Oldest = &Pending{Call: call, Stream: stream, Age: age}
		}
	}
	for _, c := range s.core.Contexts {
		for _, st := range c.Streams {
			if since, busy := st.Watch(at); busy {
				older("work", st.Handle(), since)
			}
		}
	}
	for _, call := range s.pending {
		older(call.number.String(), call.stream, call.since)
	}
}

// ranks are the variables of the launchers in use: torchrun, Open MPI, Slurm.
var ranks = [][2]string{
	{"RANK", "WORLD_SIZE"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"SLURM_PROCID", "SLURM_NTASKS"},
}

// rank reads the program's place in a distributed job from its environment.
func rank(getenv func(string) string) (rank, size int) {
	if getenv == nil {
		return 0, 0
	}
	for _, names := range ranks {
		r, err1 := strconv.Atoi(getenv(names[0]))
		n, err2 := strconv.Atoi(getenv(names[1]))
		if err1 == nil && err2 == nil && r >= 0 && r < n {
			return r, n
		}
	}
	return 0, 0
}
