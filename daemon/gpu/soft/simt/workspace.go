package simt

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu/ptx"
)

// A cooperative launch has a few bytes of device memory of its own, for the barrier across its
// grid, which is compiled into kernels and finds them through two special registers. A program that
// looks there gets some, as a variable of its own.
const (
	workspaceName  = "__phos_grid_workspaces"
	workspaceBytes = 64
	workspaceCount = 128 // so many cooperative launches of one program run at once; more wait
)

// placeWorkspaces finds memory for the workspaces, where a kernel looks for one.
func (l *linker) placeWorkspaces() error {
	if !l.needsWorkspaces() {
		return nil
	}
	address, err := l.place(workspaceName, workspaceBytes*workspaceCount, workspaceBytes)
	if err != nil {
		return fmt.Errorf("place the workspaces of cooperative launches: %w", err)
	}
	l.program.workspaces = make(chan uint64, workspaceCount)
	for i := range uint64(workspaceCount) {
		l.program.workspaces <- address + i*workspaceBytes
	}
	return nil
}

func (l *linker) needsWorkspaces() bool {
	for _, m := range l.modules {
		if m.Outlined() && (m.Mentions("%envreg1") || m.Mentions("%envreg2")) {
			return true
		}
	}
	for _, k := range l.program.kernels {
		if k.code == nil {
			continue
		}
		for _, s := range k.code.Specials {
			if s.Special == ptx.Envreg1 || s.Special == ptx.Envreg2 {
				return true
			}
		}
	}
	return false
}

// acquireWorkspace waits for a free workspace and clears it: a launch that was cut off may have left
// it in any state. It returns 0 for a launch that has none, and that is how a kernel tells that it
// cannot synchronise its grid.
func (p *Program) acquireWorkspace(ctx context.Context, launch *Launch, memory *Memory) (uint64, error) {
	if !launch.Cooperative || p.workspaces == nil {
		return 0, nil
	}
	select {
	case address := <-p.workspaces:
		if _, err := memory.WriteAt(make([]byte, workspaceBytes), int64(address)); err != nil {
			p.workspaces <- address
			return 0, fmt.Errorf("clear the workspace of a cooperative launch: %w", err)
		}
		return address, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// releaseWorkspace takes back what takeWorkspace gave.
func (p *Program) releaseWorkspace(address uint64) {
	if address != 0 {
		p.workspaces <- address
	}
}
