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

// ErrRing is wrapped by every error about a ring with invalid content.
var ErrRing = errors.New("damaged submission ring")

// RingError is an error in the ring, with its position.
type RingError struct {
	Position uint64 // bytes consumed before it
	Detail   string
}

func (e *RingError) Error() string {
	return fmt.Sprintf("%s at byte %d: %s", ErrRing, e.Position, e.Detail)
}

func (e *RingError) Unwrap() error { return ErrRing }

// Frame is one call from the ring. It is a private copy that the program cannot change.
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
	spinTime   = 50 * time.Microsecond // spinning after the last frame, before sleeping
	spinLooks  = 64                    // polls of the head per look at the clock
	sleepLimit = time.Second           // a lost wake-up costs at most this
	batchBytes = RingBytes / 16        // the tail is published after so many consumed bytes
	beatTime   = time.Second
)

// Ring is the worker's end of the submission ring. One goroutine uses it.
type Ring struct {
	head, tail *atomic.Uint64
	completed  *atomic.Uint64
	heartbeat  *atomic.Uint64
	doorbell   *atomic.Uint32
	stopped    atomic.Bool
	skipSpin   bool // the next wait sleeps without spinning

	data      []byte
	consumed  uint64        // the next value of tail
	published atomic.Uint64 // the current value of tail
	copy      []byte        // the current frame
	frame     Frame
}

// Ring returns the file's submission ring, at the position of the previous reader.
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

// Empty reports whether all frames posted so far have been handled. It is safe for concurrent use.
func (r *Ring) Empty() bool { return r.head.Load() == r.published.Load() }

// Posted returns where the program posts its next frame: it changes with each frame. It is safe for
// concurrent use.
func (r *Ring) Posted() uint64 { return r.head.Load() }

// Run calls handle for every frame, in order. It returns nil when ctx is done, or a RingError if
// the ring is damaged. It occupies an operating system thread: when the ring is empty it spins for
// a while, then sleeps.
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

// stop makes Run return.
func (r *Ring) stop() {
	r.stopped.Store(true)
	r.doorbell.Store(0)
	Wake(r.doorbell)
}

// beat increments the heartbeat once a second until the returned function is called.
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

// drain handles all frames in the ring.
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

// publish frees the consumed bytes for the program.
func (r *Ring) publish() {
	if r.published.Load() != r.consumed {
		r.tail.Store(r.consumed)
		r.published.Store(r.consumed)
	}
}

// SkipSpin makes the next wait sleep at once. Call it while the program waits for a long call:
// spinning would take a core from that work.
func (r *Ring) SkipSpin() { r.skipSpin = true }

// await waits until there may be a frame.
func (r *Ring) await() {
	start, skip := time.Now(), r.skipSpin
	r.skipSpin = false
	for !skip && time.Since(start) < spinTime {
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
	// A program that posts from now on sees the doorbell; an earlier post is seen here.
	if r.head.Load() == r.consumed && !r.stopped.Load() {
		SleepOn(r.doorbell, 1, sleepLimit)
	}
	r.doorbell.Store(0)
}

// Next takes the next frame without waiting. It returns nil if there is none. The frame is valid
// until the next call.
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

// take copies the frame at the read position, checks the copy and advances. It reads each byte of
// the ring only once, so later changes by the program have no effect.
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

// damaged returns a RingError at the current position.
func (r *Ring) damaged(format string, args ...any) error {
	return &RingError{Position: r.consumed, Detail: fmt.Sprintf(format, args...)}
}
