package guard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Where things are in what the program tells.
const (
	denialPID   = 0
	denialUID   = 4
	denialMajor = 8
	denialMinor = 12
	denialName  = 16
	denialBytes = denialName + nameBytes

	nameBytes = 16
)

// denial is an open that was refused.
type denial struct {
	// pid is 0 where the kernel does not tell it.
	pid, uid, major, minor uint32
	// name is what the kernel calls the process.
	name string
}

// decodeDenial reads what the program has written.
func decodeDenial(text []byte) (denial, bool) {
	if len(text) < denialBytes {
		return denial{}, false
	}
	name, _, _ := bytes.Cut(text[denialName:denialBytes], []byte{0})
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(text[at:]) }
	return denial{word(denialPID), word(denialUID), word(denialMajor), word(denialMinor), string(name)}, true
}

// quiet is how long nothing more is said of a process that goes on trying.
const quiet = time.Minute

// mostTold bounds the processes that are remembered for that.
const mostTold = 1024

// listen says who was refused, so that nobody need wonder why a program finds no GPU.
func (g *Guard) listen() error {
	ring, err := ringbuf.NewReader(g.loaded.denials)
	if err != nil {
		return err
	}
	g.running.Go(func() {
		<-g.stop
		_ = ring.Close()
	})
	g.running.Go(func() {
		told := map[denial]time.Time{}
		for {
			record, err := ring.Read()
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil {
				g.options.Log.Error("listen to the guard", "error", err)
				return
			}
			if said, ok := decodeDenial(record.RawSample); ok {
				g.denied.Add(1)
				g.tell(said, told)
			}
		}
	})
	return nil
}

// tell logs a denial once in a while for each process.
func (g *Guard) tell(said denial, told map[denial]time.Time) {
	who := denial{pid: said.pid, uid: said.uid, name: said.name}
	if time.Since(told[who]) < quiet {
		return
	}
	if len(told) >= mostTold {
		clear(told)
	}
	told[who] = time.Now()
	g.mu.Lock()
	device := g.guarded[said.major]
	g.mu.Unlock()
	g.options.Log.Warn("kept a process that is not phosd's from a GPU (gpus.exclusive)", "pid", said.pid, "uid", said.uid,
		"process", said.name, "device", device, "minor", said.minor)
}
