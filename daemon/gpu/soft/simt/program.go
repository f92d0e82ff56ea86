package simt

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Program is linked code, ready to run.
type Program struct {
	mu      sync.Mutex // held while a kernel is lowered
	kernels map[string]*Kernel
	names   []string // of the kernels, sorted
	globals map[string]gpu.Range
	heap    uint64 // address of the device heap, or 0
	// heapBytes is the heap's size.
	heapBytes uint64
	// workspaces holds the addresses of the free workspaces; nil if no kernel uses them.
	workspaces chan uint64
}

// Kernel looks up an entry point. A library's kernel is lowered now: the error names the
// instruction that is not supported, or is abi.NotFound.
func (p *Program) Kernel(name string) (*Kernel, error) {
	k, found := p.kernels[name]
	if !found {
		return nil, &gpu.Error{Op: "find function", Code: abi.NotFound, Detail: fmt.Sprintf("no kernel %q", name)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.lower != nil {
		k.refuse = k.lower()
		k.lower = nil
	}
	if k.refuse != nil {
		return nil, k.refuse
	}
	return k, nil
}

// Kernels returns the names of the entry points, sorted. The caller must not change the list.
func (p *Program) Kernels() []string { return p.names }

// Globals returns the program's variables in device memory by name.
func (p *Program) Globals() map[string]gpu.Range { return p.globals }
