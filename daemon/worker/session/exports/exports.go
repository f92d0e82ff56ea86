package exports

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Exports is what other processes can have of the program's. Other sessions ask for it at any time,
// so that it has a lock of its own, which is never held while another one is taken.
type Exports struct {
	// Dir is where sessions of this user find each other. It is set before the first use.
	Dir ipc.Dir

	mu       sync.Mutex
	exporter ipc.ID // zero while nothing was ever exported
	server   *ipc.Server
	things   map[ipc.ID]Offer
}

// Offer is an allocation, or an event, that others can have.
type Offer struct {
	Ordinal       int // the machine's
	Memory        gpu.Sharer
	Chunks        gpu.Range // which are shared as a whole
	Within, Bytes uint64
	// Counter is set for an event, and nothing else then.
	Counter *ipc.Counter
}

// serve begins to answer, under a name that is new or was this session's before.
func (x *Exports) serve(name ipc.ID) error {
	server, err := x.Dir.Serve(name, x.grant)
	if err != nil {
		return fmt.Errorf("share memory: %w", err)
	}
	x.exporter, x.server = name, server
	return nil
}

// Offer makes an allocation one that others can have.
func (x *Exports) Offer(key ipc.ID, what Offer) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.exporter == (ipc.ID{}) {
		if err := x.serve(ipc.NewID()); err != nil {
			return err
		}
	}
	x.enter(key, what)
	return nil
}

// enter notes what a key stands for. mu is held.
func (x *Exports) enter(key ipc.ID, what Offer) {
	if x.things == nil {
		x.things = map[ipc.ID]Offer{}
	}
	x.things[key] = what
}

// Put is enter for what had its key before. The name comes when all is there.
func (x *Exports) Put(key ipc.ID, what Offer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.enter(key, what)
}

// Withdraw ends an offer. Sessions that have imported the memory keep it.
func (x *Exports) Withdraw(key ipc.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.things, key)
}

// Name returns the name under which this session exports, zero if nothing was ever exported.
func (x *Exports) Name() ipc.ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.exporter
}

func (x *Exports) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.server != nil {
		x.server.Close()
		x.server = nil
	}
}

// grant answers another session.
func (x *Exports) grant(kind ipc.Kind, key ipc.ID) (ipc.Grant, error) {
	x.mu.Lock()
	what, ok := x.things[key]
	if ok && kind == ipc.Event && what.Counter != nil {
		defer x.mu.Unlock() // keeps the counter open until its file is duplicated
		file, err := what.Counter.File()
		return ipc.Grant{Kind: kind, File: file}, err
	}
	x.mu.Unlock()
	if !ok || kind != ipc.Memory || what.Counter != nil {
		return ipc.Grant{}, abi.InvalidHandle
	}
	file, offset, err := what.Memory.Share(what.Chunks)
	if err != nil {
		return ipc.Grant{}, err
	}
	return ipc.Grant{
		Kind: kind, Ordinal: int32(what.Ordinal), File: file, Offset: uint64(offset), FileBytes: what.Chunks.Bytes,
		Within: what.Within, Bytes: what.Bytes,
	}, nil
}

// Halves splits an ID into the two words by which it travels.
func Halves(id ipc.ID) (a, b uint64) {
	return binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
}

// Join is the reverse of Halves.
func Join(a, b uint64) (id ipc.ID) {
	binary.LittleEndian.PutUint64(id[:8], a)
	binary.LittleEndian.PutUint64(id[8:], b)
	return id
}

// Resume answers under the name from before.
func (x *Exports) Resume(name ipc.ID) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.serve(name)
}
