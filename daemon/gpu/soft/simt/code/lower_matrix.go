package code

import (
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/matrix"
	"github.com/phos-gpu/phos/internal/ptx"
)

var matrixShapes = map[ptx.Op]Shape{
	ptx.OpMma: MatrixMultiply, ptx.OpMovmatrix: MatrixMove, ptx.OpLdmatrix: MatrixLoad, ptx.OpStmatrix: MatrixStore,
}

// matrix lowers the instructions on matrices that are distributed over a warp.
func (l *lowering) matrix(in *ptx.Inst) error {
	class := ptx.R32
	if in.Type == ptx.F64 {
		class = ptx.R64
	}
	src, err := l.sources(in, class)
	if err != nil {
		return err
	}
	out := Inst{Shape: matrixShapes[in.Op], X: &Extra{Mode: in.Mode, Src: src}}
	for i := range in.Dst {
		out.X.Dst = append(out.X.Dst, l.destination(in, i))
	}
	switch in.Op {
	case ptx.OpMma:
		out.X.Matrix = matrix.Lookup(in)
	case ptx.OpLdmatrix, ptx.OpStmatrix:
		row := *in // each address is that of a row of eight halves
		row.Vec = 8
		if err := l.memory(&row, &out); err != nil {
			return err
		}
	}
	l.emit(out)
	return nil
}

// copyAsync lowers cp.async to a load from global memory and a store to shared memory, in sequence.
// The ISA allows it to complete at any time before it is waited for.
func (l *lowering) copyAsync(in *ptx.Inst) error {
	from := *in
	from.Space, from.Addr = ptx.Global, *in.From
	load := Inst{Shape: Load, X: &Extra{}}
	if err := l.memory(&from, &load); err != nil {
		return err
	}
	words := make([]Ref, in.Vec)
	for i := range words {
		words[i] = Ref{At: l.newColumn(column32), Class: ptx.R32}
	}
	load.X.Dst, load.D = words, words[0].At
	if len(in.Src) > 0 {
		class := ptx.R32
		if in.Src[0].Kind == ptx.RegOperand {
			class = in.Src[0].Reg.Class
		}
		src, err := l.source(in.Src[0], class)
		if err != nil {
			return err
		}
		load.Shape, load.X.Src = LoadPart, []Ref{src}
	}
	load.Memory.Simple = simple(load.Memory, words[0])
	store := Inst{Shape: Store, B: words[0].At, X: &Extra{Src: words}}
	if err := l.memory(in, &store); err != nil {
		return err
	}
	store.Memory.Simple = simple(store.Memory, words[0])
	l.emit(load)
	l.emit(store)
	return nil
}
