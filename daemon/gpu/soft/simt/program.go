package simt

import (
	"sort"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// Program is linked code, ready to run.
type Program struct {
	kernels map[string]*Kernel
	globals map[string]gpu.Range
	heap    uint64 // address of the device heap, 0 where there is none
	// heapBytes is the heap's size.
	heapBytes uint64
	// workspaces are the addresses of those that no cooperative launch has now; nil where no kernel looks for one.
	workspaces chan uint64
}

// Kernel finds an entry point.
func (p *Program) Kernel(name string) (*Kernel, bool) {
	k, found := p.kernels[name]
	return k, found
}

// Kernels lists the entry points by name, sorted.
func (p *Program) Kernels() []string {
	names := make([]string, 0, len(p.kernels))
	for name := range p.kernels {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Globals lists the program's variables in device memory by name.
func (p *Program) Globals() map[string]gpu.Range { return p.globals }
