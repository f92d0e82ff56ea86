package wiretest

import (
	"time"

	"github.com/phos-gpu/phos/hijack/wire"
)

// passGate waits at the gate, and clears GateRestored.
func (t *Thread) passGate(flags uint16) {
	stops := uint32(wire.GateClosed)
	if flags&wire.FlagWait == 0 {
		stops |= wire.GateFull
	}
	for {
		gate := t.view.Load().gate
		switch seen := gate.Load(); {
		case seen&stops != 0:
			wire.SleepOn(gate, seen, 10*time.Millisecond)
		case seen&wire.GateRestored != 0:
			gate.And(^uint32(wire.GateRestored))
		default:
			return
		}
	}
}

// Hold makes a thread hold what no checkpoint can save, until release.
func (p *Program) Hold() (release func()) {
	holds := p.view.Load().file.Word32(wire.WordHolds)
	holds.Add(1)
	return func() { holds.Add(^uint32(0)) }
}

// AwaitClosedGate returns when the gate is closed.
func (p *Program) AwaitClosedGate() {
	for p.view.Load().gate.Load()&wire.GateClosed == 0 {
		time.Sleep(time.Millisecond) //nolint:forbidigo // the word of a session file has no event here
	}
}

// Freeze stops the program like a frozen cgroup: no thread posts. Requested copies are still done.
func (p *Program) Freeze() { p.mu.Lock() }

// Thaw resumes a frozen program.
func (p *Program) Thaw() { p.mu.Unlock() }

// Move replaces a frozen program's session file, as a restore does. The first file must stay open.
func (p *Program) Move(file *wire.File) {
	p.view.Store(newView(file))
	p.position = file.Word64(wire.WordHead).Load()
}

// Session returns the number of the program's session.
func (p *Program) Session() uint64 { return p.view.Load().file.Word64(wire.WordSession).Load() }
