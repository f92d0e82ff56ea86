// Package blank makes modules of machine code whose kernels do nothing. They have the names,
// parameters, limits and variables that the code declares, so that programs load and launch them as
// on a real GPU. Tested by daemon/gpu/soft.
package blank

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu/codeinfo"
	"github.com/phos-gpu/phos/internal/ptx"
)

// variableAlign is a multiple of the alignment of every type.
const variableAlign = 256

// Module is the PTX of machine code, with what PTX cannot say.
type Module struct {
	PTX     *ptx.Module
	Kernels map[string]*codeinfo.Kernel
}

// Read returns the module of machine code.
func Read(code []byte, sm int) (*Module, error) {
	cubin, err := codeinfo.ReadCubin(code)
	if err != nil {
		return nil, err
	}
	m := &Module{PTX: &ptx.Module{Target: fmt.Sprintf("sm_%d", sm)}, Kernels: map[string]*codeinfo.Kernel{}}
	for i := range cubin.Kernels {
		kernel := &cubin.Kernels[i]
		m.Kernels[kernel.Name] = kernel
		m.PTX.Funcs = append(m.PTX.Funcs, entry(kernel))
	}
	for i := range cubin.Variables {
		m.PTX.Globals = append(m.PTX.Globals, variable(&cubin.Variables[i]))
	}
	return m, nil
}

// entry returns a kernel that returns at once.
func entry(kernel *codeinfo.Kernel) *ptx.Func {
	f := &ptx.Func{
		Name: kernel.Name, Entry: true, Linkage: ptx.Visible, Insts: returns(),
		MaxThreads: kernel.MaxThreads, RequiredThreads: kernel.RequiredThreads,
	}
	for _, p := range kernel.Params {
		f.Params = append(f.Params, &ptx.Var{
			Space: ptx.ParamSpace, Bytes: uint64(p.Bytes), Align: 1, Offset: uint64(p.Offset),
		})
		f.ParamBytes = max(f.ParamBytes, uint64(p.Offset)+uint64(p.Bytes))
	}
	return f
}

// variable returns a variable with its content.
func variable(v *codeinfo.Variable) *ptx.Var {
	made := &ptx.Var{
		Name: v.Name, Space: ptx.Global, Linkage: ptx.Visible, Bytes: v.Bytes, Align: variableAlign,
		Init: v.Content, Managed: v.Managed,
	}
	if v.Constant {
		made.Space = ptx.Const
	}
	if v.Local {
		made.Linkage = ptx.Internal
	}
	return made
}

// returns is the body of a kernel that does nothing.
var returns = sync.OnceValue(func() []ptx.Inst {
	m, err := ptx.Parse(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n")
	if err != nil {
		panic(err) // the text is constant
	}
	return m.Funcs[0].Insts
})
