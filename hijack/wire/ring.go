package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrRing is in the chain of every error about a ring whose content cannot be what libphos writes.
var ErrRing = errors.New("damaged submission ring")

// RingError says what is wrong in the ring and where.
type RingError struct {
	Position uint64 // bytes consumed before it
	Detail   string
}

func (e *RingError) Error() string {
	return fmt.Sprintf("%s at byte %d: %s", ErrRing, e.Position, e.Detail)
}

func (e *RingError) Unwrap() error { return ErrRing }

// Frame is one call as it came through the ring. It is private: the program cannot change it any
// more.
type Frame struct {
	Call     abi.Call
	Flags    uint16
	Slot     uint32 // below SlotCount
	Context  uint32
	Sequence uint64
	// Payload is valid until the next frame is taken.
	Payload []byte
}

// Limits of waiting and batching.
const (
	spinTime   = 50 * time.Microsecond // after the last frame, before sleeping
	spinLooks  = 64                    // looks at the head between looks at the clock
	sleepLimit = time.Second           // so that a swallowed wake costs at most this
	batchBytes = RingBytes / 16        // consumed before the program is told so in the middle of a batch
	beatTime   = time.Second
)

// FrameMax is the longest frame libphos posts.
const FrameMax = RingBytes / 4

// Ring is the worker's end of the submission ring. One goroutine uses it.
type Ring struct {
	head, tail *atomic.Uint64
	completed  *atomic.Uint64
	heartbeat  *atomic.Uint64
	doorbell   *atomic.Uint32
	stopped    atomic.Bool
	rests      bool // the next wait is a sleep from the start

	data      []byte
	consumed  uint64        // what tail will be
	published atomic.Uint64 // what tail is
	copy      []byte        // the current frame
	frame     Frame
}

// Ring is the file's submission ring, where an earlier reader left it.
func (f *File) Ring() *Ring {
	r := &Ring{
		head: f.Word64(WordHead), tail: f.Word64(WordTail), completed: f.Word64(WordCompleted),
		heartbeat: f.Word64(WordHeartbeat), doorbell: f.Word32(WordDoorbell),
		data: f.Region(RingOffset, RingBytes), copy: make([]byte, FrameMax),
	}
	r.consumed = r.tail.Load()
	r.published.Store(r.consumed)
	return r
}

// Empty reports whether all that was posted so far has been handled. Any goroutine may ask.
func (r *Ring) Empty() bool { return r.head.Load() == r.published.Load() }

// Run hands every frame to handle, in order, until ctx is done (nil) or the ring is damaged (a
// RingError). It keeps an operating system thread to itself: it spins for a while when the ring
// runs dry, then sleeps.
func (r *Ring) Run(ctx context.Context, handle func(*Frame)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer context.AfterFunc(ctx, r.stop)()
	defer r.beat()()
	for !r.stopped.Load() {
		took, err := r.drain(handle)
		if err != nil {
			return err
		}
		if !took {
			r.await()
		}
	}
	return nil
}

func (r *Ring) stop() {
	r.stopped.Store(true)
	r.doorbell.Store(0)
	Wake(r.doorbell)
}

// beat tells the program once a second that this process moves, until the returned function is
// called.
func (r *Ring) beat() (stop func()) {
	ticker := time.NewTicker(beatTime)
	done := make(chan struct{})
	r.heartbeat.Add(1)
	go func() {
		for {
			select {
			case <-ticker.C:
				r.heartbeat.Add(1)
			case <-done:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(done) }
}

// drain handles what the ring holds.
func (r *Ring) drain(handle func(*Frame)) (took bool, err error) {
	for !r.stopped.Load() {
		frame, err := r.Next()
		if err != nil {
			return took, err
		}
		if frame == nil {
			break
		}
		took = true
		handle(frame)
		r.completed.Store(frame.Sequence)
		if r.consumed-r.published.Load() >= batchBytes {
			r.publish()
		}
	}
	r.publish()
	return took, nil
}

// publish gives the consumed bytes back to the program.
func (r *Ring) publish() {
	if r.published.Load() != r.consumed {
		r.tail.Store(r.consumed)
		r.published.Store(r.consumed)
	}
}

// Rest is for a handler whose call keeps the program waiting for long: looking for more frames
// would keep a core from the work.
func (r *Ring) Rest() { r.rests = true }

// await returns when there may be a frame.
func (r *Ring) await() {
	start, rests := time.Now(), r.rests
	r.rests = false
	for !rests && time.Since(start) < spinTime {
		for range spinLooks {
			if r.head.Load() != r.consumed {
				return
			}
			pause()
		}
		if r.stopped.Load() {
			return
		}
	}
	r.doorbell.Store(1)
	// A program that posts now sees the doorbell; one that posted before is seen here.
	if r.head.Load() == r.consumed && !r.stopped.Load() {
		SleepOn(r.doorbell, 1, sleepLimit)
	}
	r.doorbell.Store(0)
}

// Next takes the next frame without waiting, nil where there is none. The frame is valid until the
// next call.
func (r *Ring) Next() (*Frame, error) {
	for {
		head := r.head.Load()
		if head == r.consumed {
			return nil, nil
		}
		available := head - r.consumed
		if available > RingBytes || available%FrameAlign != 0 {
			return nil, r.damaged("head at byte %d", head)
		}
		padding, err := r.take(available)
		if err != nil {
			return nil, err
		}
		if !padding {
			return &r.frame, nil
		}
	}
}

// take copies the frame at the reading position, checks the copy and moves on. Every look at the
// ring itself happens once: what the program changes afterwards is not seen.
func (r *Ring) take(available uint64) (padding bool, err error) {
	position := r.consumed % RingBytes
	header := r.copy[:FrameHeader]
	copy(header, r.data[position:])
	length := uint64(binary.LittleEndian.Uint32(header))
	call := abi.Call(binary.LittleEndian.Uint16(header[4:]))
	rounded := (length + FrameAlign - 1) &^ (FrameAlign - 1)
	switch {
	case length < FrameHeader:
		return false, r.damaged("frame of %d bytes", length)
	case rounded > available:
		return false, r.damaged("frame of %d bytes, %d posted", length, available)
	case position+rounded > RingBytes:
		return false, r.damaged("frame of %d bytes crosses the end", length)
	case call == 0:
		r.consumed += rounded
		return true, nil
	case length > FrameMax:
		return false, r.damaged("frame of %d bytes, limit %d", length, FrameMax)
	}
	slot := binary.LittleEndian.Uint32(header[8:])
	if slot >= SlotCount {
		return false, r.damaged("reply slot %d", slot)
	}
	payload := r.copy[FrameHeader:length:length]
	copy(payload, r.data[position+FrameHeader:])
	r.frame = Frame{
		Call: call, Slot: slot, Payload: payload,
		Flags:    binary.LittleEndian.Uint16(header[6:]),
		Context:  binary.LittleEndian.Uint32(header[12:]),
		Sequence: binary.LittleEndian.Uint64(header[16:]),
	}
	r.consumed += rounded
	return false, nil
}

func (r *Ring) damaged(format string, args ...any) error {
	return &RingError{Position: r.consumed, Detail: fmt.Sprintf(format, args...)}
}
