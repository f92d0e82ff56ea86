package wire

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Callback is a request to run a function of the program on its callback thread, which then posts
// callbackDone with ID.
type Callback struct {
	Kind     uint32 // CallbackHost, CallbackStream or CallbackDestroy
	Status   abi.Result
	Function uint64
	UserData uint64
	Stream   abi.Handle
	ID       uint64
}

// Callbacks is the worker's end of the callback ring. It is safe for concurrent use.
type Callbacks struct {
	head, tail *atomic.Uint64
	low        *atomic.Uint32 // low half of head, on which the program sleeps
	data       []byte

	mu sync.Mutex
}

// Callbacks returns the file's callback ring.
func (f *File) Callbacks() *Callbacks {
	return &Callbacks{
		head: f.Word64(WordCallbackHead), tail: f.Word64(WordCallbackTail), low: f.Word32(WordCallbackHead),
		data: f.Region(CallbackOffset, CallbackBytes),
	}
}

// Post sends a callback to the program. It returns abi.NotReady if the ring is full; then the
// caller retries.
func (c *Callbacks) Post(callback Callback) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := c.head.Load()
	if used := head - c.tail.Load(); used > CallbackBytes-CallbackRecord {
		return abi.NotReady
	}
	record := c.data[head%CallbackBytes&^(CallbackRecord-1):][:CallbackRecord]
	clear(record)
	binary.LittleEndian.PutUint32(record[0:], callback.Kind)
	binary.LittleEndian.PutUint64(record[8:], callback.Function)
	binary.LittleEndian.PutUint64(record[16:], callback.UserData)
	binary.LittleEndian.PutUint64(record[24:], uint64(callback.Stream))
	binary.LittleEndian.PutUint32(record[32:], uint32(callback.Status))
	binary.LittleEndian.PutUint64(record[40:], callback.ID)
	c.head.Store(head + CallbackRecord)
	Wake(c.low)
	return nil
}
