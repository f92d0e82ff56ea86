package guard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Offsets in a record of the BPF program.
const (
	denialPID   = 0
	denialUID   = 4
	denialMajor = 8
	denialMinor = 12
	denialName  = 16
	denialBytes = denialName + nameBytes

	nameBytes = 16
)

// denial is an open that was denied.
type denial struct {
	// pid is 0 on kernels that do not report it.
	pid, uid, major, minor uint32
	// name is what the kernel calls the process.
	name string
}

// decodeDenial decodes a record of the BPF program.
func decodeDenial(text []byte) (denial, bool) {
	if len(text) < denialBytes {
		return denial{}, false
	}
	name, _, _ := bytes.Cut(text[denialName:denialBytes], []byte{0})
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(text[at:]) }
	return denial{word(denialPID), word(denialUID), word(denialMajor), word(denialMinor), string(name)}, true
}

// logInterval is between two log lines about the same process.
const logInterval = time.Minute

// maxLogged is how many processes are remembered for that.
const maxLogged = 1024

// logDenials logs denied opens, so that users can see why a program finds no GPU.
func (g *Guard) logDenials() error {
	ring, err := ringbuf.NewReader(g.loaded.denials)
	if err != nil {
		return err
	}
	g.running.Go(func() {
		<-g.stop
		_ = ring.Close()
	})
	g.running.Go(func() {
		logged := map[denial]time.Time{}
		for {
			record, err := ring.Read()
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil {
				g.options.Log.Error("read denials", "error", err)
				return
			}
			if denied, ok := decodeDenial(record.RawSample); ok {
				g.denied.Add(1)
				g.log(denied, logged)
			}
		}
	})
	return nil
}

// log logs a denial, at most one in a logInterval for each process.
func (g *Guard) log(d denial, logged map[denial]time.Time) {
	process := denial{pid: d.pid, uid: d.uid, name: d.name}
	if time.Since(logged[process]) < logInterval {
		return
	}
	if len(logged) >= maxLogged {
		clear(logged)
	}
	logged[process] = time.Now()
	g.mu.Lock()
	device := g.guarded[d.major]
	g.mu.Unlock()
	g.options.Log.Warn("kept a process that is not phosd's from a GPU (gpus.exclusive)", "pid", d.pid, "uid", d.uid,
		"process", d.name, "device", device, "minor", d.minor)
}
