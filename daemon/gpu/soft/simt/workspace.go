package simt

import (
	"context"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/internal/ptx"
)

// A cooperative launch has a workspace, a few bytes of device memory for its grid barrier. The
// barrier is compiled into kernels, which find the workspace through two special registers. A
// program whose kernels read them gets workspaces as a variable of its own.
const (
	workspaceName  = "__phos_grid_workspaces"
	workspaceBytes = 64
	workspaceCount = 128 // maximum of concurrent cooperative launches of one program; more launches wait
)

// placeWorkspaces allocates the workspaces if a kernel uses one.
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

// needsWorkspaces reports whether a kernel may read the special registers of the workspace.
func (l *linker) needsWorkspaces() bool {
	for _, m := range l.modules {
		if m.Outlined() && (m.Mentions("%envreg1") || m.Mentions("%envreg2")) {
			return true
		}
	}
	for _, m := range l.modules {
		if slices.ContainsFunc(m.Funcs, readsWorkspace) {
			return true
		}
	}
	return false
}

// readsWorkspace reports whether a body that is read names the special registers.
func readsWorkspace(f *ptx.Func) bool {
	for i := range f.Insts {
		for _, o := range f.Insts[i].Src {
			if o.Kind == ptx.SpecialOperand && (o.Special == ptx.Envreg1 || o.Special == ptx.Envreg2) {
				return true
			}
		}
	}
	return false
}

// acquireWorkspace waits for a free workspace and clears it, because a cancelled launch may have
// left it in any state. It returns 0 for a launch that has none; a kernel then knows that it cannot
// synchronize its grid.
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

// releaseWorkspace frees a workspace.
func (p *Program) releaseWorkspace(address uint64) {
	if address != 0 {
		p.workspaces <- address
	}
}
