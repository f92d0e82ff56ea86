package simt

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Program is linked code, ready to run.
type Program struct {
	mu      sync.Mutex // held while a kernel is made ready
	kernels map[string]*Kernel
	names   []string // of the kernels, sorted
	globals map[string]gpu.Range
	heap    uint64 // address of the device heap, 0 where there is none
	// heapBytes is the heap's size.
	heapBytes uint64
	// workspaces are the addresses of those that no cooperative launch has now; nil where no kernel
	// looks for one.
	workspaces chan uint64
}

// Kernel finds an entry point. Of a library's it reads the code first: the error says what in it
// cannot be executed, or is an abi.NotFound.
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

// Kernels lists the entry points by name, sorted. Nobody may change the list.
func (p *Program) Kernels() []string { return p.names }

// Globals lists the program's variables in device memory by name.
func (p *Program) Globals() map[string]gpu.Range { return p.globals }
