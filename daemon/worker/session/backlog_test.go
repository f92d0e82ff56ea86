package session

import (
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// TestBacklog holds a stream and submits to it: after so much the program is told to wait, and once
// that is done, to go on.
func TestBacklog(t *testing.T) {
	for name, bytes := range map[string]int{"small": 4, "large": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			address := p.alloc(64 << 10)
			gate, open := p.gate()
			defer open()
			p.ok(abi.CallLaunch, launchOf(gate, abi.StreamLegacy, 0), nil)
			content := make([]byte, bytes)
			submitted := 0
			told := func() []bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return slices.Clone(p.full)
			}
			for ; len(told()) == 0 && submitted < 2*core.FullUnits; submitted++ {
				p.ok(
					abi.CallMemcpyInline,
					&wire.MemcpyInline{Dst: address, Stream: abi.StreamLegacy, Bytes: content},
					nil,
				)
			}
			if want := core.FullUnits / (1 + bytes/core.UnitBytes); submitted < want ||
				submitted > want+2*core.MarkUnits {
				t.Errorf("full after %d copies of %d bytes, want %d", submitted, bytes, want)
			}
			open()
			syncContext(p)
			if got := told(); !slices.Equal(got, []bool{true, false}) {
				t.Errorf("the program was told %v", got)
			}
		})
	}
}
