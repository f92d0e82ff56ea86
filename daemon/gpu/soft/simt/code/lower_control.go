package code

import (
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/arith"
	"github.com/phos-gpu/phos/internal/ptx"
)

// lowerInstruction lowers one instruction to none, one or several Insts.
func (l *lowering) lowerInstruction(in *ptx.Inst) error {
	switch in.Op {
	case ptx.OpMov:
		return l.move(in)
	case ptx.OpPack, ptx.OpUnpack:
		return l.pack(in)
	case ptx.OpSetp, ptx.OpTestp:
		return l.compare(in)
	case ptx.OpSelp:
		return l.selection(in)
	case ptx.OpCvta:
		return l.cvta(in)
	case ptx.OpIsspacep:
		return l.isspacep(in)
	case ptx.OpLd, ptx.OpLdu:
		return l.load(in)
	case ptx.OpSt:
		return l.store(in)
	case ptx.OpAtom, ptx.OpRed:
		return l.atomic(in)
	case ptx.OpCopyAsync:
		return l.copyAsync(in)
	case ptx.OpMma, ptx.OpMovmatrix, ptx.OpLdmatrix, ptx.OpStmatrix:
		return l.matrix(in)
	case ptx.OpPrefetch, ptx.OpFence:
		return nil // caches are not simulated, and memory is in order
	case ptx.OpBra, ptx.OpBrx, ptx.OpRet, ptx.OpExit, ptx.OpTrap, ptx.OpBrkpt, ptx.OpNanosleep:
		return l.control(in)
	case ptx.OpCall:
		return l.call(in)
	case ptx.OpMultimem:
		l.emit(Inst{Shape: Refuse, X: &Extra{Reason: "the software GPU has no multicast memory"}})
		return nil
	case ptx.OpBar, ptx.OpBarWarp, ptx.OpShfl, ptx.OpVote, ptx.OpMatch, ptx.OpRedux, ptx.OpActivemask, ptx.OpElect:
		return l.collective(in)
	}
	return l.arithmetic(in)
}

// control lowers branches and other instructions that end or redirect lanes.
func (l *lowering) control(in *ptx.Inst) error {
	switch in.Op {
	case ptx.OpBra:
		l.emit(Inst{Shape: Branch, Target: in.Target})
	case ptx.OpBrx:
		src, err := l.source(in.Src[0], ptx.R32)
		if err != nil {
			return err
		}
		l.emit(Inst{Shape: BranchIndexed, A: src.At, X: &Extra{Targets: append([]int32(nil), in.Targets...)}})
	case ptx.OpRet:
		l.emit(Inst{Shape: Return})
	case ptx.OpExit:
		l.emit(Inst{Shape: Exit})
	case ptx.OpTrap:
		l.emit(Inst{Shape: Trap})
	case ptx.OpBrkpt:
		l.emit(Inst{Shape: Breakpoint})
	default:
		l.emit(Inst{Shape: Yield})
	}
	return nil
}

var collectiveShapes = map[ptx.Op]Shape{
	ptx.OpBar: Barrier, ptx.OpBarWarp: WarpBarrier, ptx.OpShfl: Shuffle, ptx.OpVote: Vote, ptx.OpMatch: Match,
	ptx.OpRedux: Redux, ptx.OpActivemask: ActiveMask, ptx.OpElect: Elect,
}

// collective lowers the instructions that lanes or warps execute together.
func (l *lowering) collective(in *ptx.Inst) error {
	src := make([]Ref, len(in.Src))
	for i, o := range in.Src {
		var err error
		if src[i], err = l.source(o, collectiveClass(in, i)); err != nil {
			return err
		}
	}
	dst := make([]Ref, len(in.Dst))
	for i := range in.Dst {
		dst[i] = l.destination(in, i)
	}
	x := &Extra{Mode: in.Mode, Atom: in.Atom, Type: in.Type, Src: src, Dst: dst, Sync: in.Flags&ptx.Sync != 0}
	if in.Op == ptx.OpRedux && arith.Reduce(in.Atom, in.Type) == nil {
		return l.refuse("this combination is not supported")
	}
	l.emit(Inst{Shape: collectiveShapes[in.Op], X: x})
	return nil
}

// collectiveClass returns the register class of a constant as source i.
func collectiveClass(in *ptx.Inst, i int) ptx.Class {
	switch {
	case in.Op == ptx.OpVote && i == 0:
		return ptx.Pred
	case in.Op == ptx.OpBar && i == 2:
		return ptx.Pred
	case in.Op == ptx.OpMatch && i == 0:
		return classOf(in.Type)
	}
	return ptx.R32
}

var builtins = map[string]Builtin{"vprintf": Vprintf, "__assertfail": AssertFail, "malloc": Malloc, "free": Free}

// builtinArguments is how many arguments each builtin function has. All have at most one result.
var builtinArguments = map[Builtin]int{Vprintf: 2, AssertFail: 5, Malloc: 1, Free: 1}

// call lowers a call, with moves for its arguments and results.
func (l *lowering) call(in *ptx.Inst) error {
	site := &CallSite{FrameBytes: l.fn.out.FrameBytes, Indirect: Ref{Sink: true}, Within: l.callee}
	out := Inst{Shape: Call, X: &Extra{Call: site}}
	switch {
	case in.Call.Func == nil:
		site.Indirect = l.register(in.Call.Indirect)
	case l.linked.Functions[in.Call.Func.Name] != nil:
		callee := l.functions[l.linked.Functions[in.Call.Func.Name]]
		site.Function = callee.out
		l.patches = append(l.patches, patch{int32(len(l.text.Insts)), callee})
	default:
		site.Builtin = builtins[in.Call.Func.Name]
		if (site.Builtin == Malloc || site.Builtin == Free) && !l.linked.Heap {
			return l.refuse("'%s' needs a device heap, which this program does not have", in.Call.Func.Name)
		}
		if n := builtinArguments[site.Builtin]; len(in.Call.Args) != n || len(in.Call.Rets) > 1 {
			return l.refuse("'%s' has %d parameters and at most one return value", in.Call.Func.Name, n)
		}
		out.Shape = CallBuiltin
	}
	if err := l.passArguments(in.Call, site); err != nil {
		return err
	}
	// Constants may have emitted instructions of their own, so the call may have moved: update the
	// patch.
	if site.Function != nil {
		l.patches[len(l.patches)-1].inst = int32(len(l.text.Insts))
	}
	l.emit(out)
	return nil
}

// passArguments assigns the places of a callee's parameters in the order of its declaration:
// parameters, then results.
func (l *lowering) passArguments(c *ptx.Call, site *CallSite) error {
	var formal *ptx.Func
	if site.Function != nil {
		formal = l.linked.Functions[c.Func.Name]
	}
	at := uint64(0)
	for i, o := range c.Args {
		from, bytes, align, err := l.callerPlace(o, formalVar(formal, i, false))
		if err != nil {
			return err
		}
		at = alignUp(at, align)
		site.Args = append(site.Args, Move{From: from, To: l.formalPlace(formal, i, false, at), Bytes: bytes})
		at += uint64(bytes)
	}
	for i, o := range c.Rets {
		to, bytes, align, err := l.callerPlace(o, formalVar(formal, i, true))
		if err != nil {
			return err
		}
		at = alignUp(at, align)
		site.Rets = append(site.Rets, Move{From: l.formalPlace(formal, i, true, at), To: to, Bytes: bytes})
		at += uint64(bytes)
	}
	return nil
}

// formalVar returns the variable of parameter or result i of a function, or nil.
func formalVar(f *ptx.Func, i int, result bool) *ptx.Var {
	switch {
	case f == nil:
		return nil
	case result && i < len(f.Returns):
		return f.Returns[i]
	case !result && i < len(f.Params):
		return f.Params[i]
	}
	return nil
}

// formalPlace returns where the callee finds parameter i or leaves result i. at is the place if
// nothing is declared.
func (l *lowering) formalPlace(f *ptx.Func, i int, result bool, at uint64) Place {
	if f == nil {
		return Place{InFrame: true, Offset: uint32(at)}
	}
	regs, vars := f.ParamRegs, f.Params
	if result {
		regs, vars = f.ReturnRegs, f.Returns
	}
	if i < len(regs) && regs[i].Index >= 0 {
		caller := l.fn
		l.fn = l.functions[f]
		defer func() { l.fn = caller }()
		return Place{Ref: l.register(regs[i])}
	}
	return Place{InFrame: true, Offset: uint32(vars[i].Offset)}
}

// callerPlace returns the caller's place of an argument or result.
func (l *lowering) callerPlace(o ptx.Operand, formal *ptx.Var) (place Place, bytes uint32, align uint64, err error) {
	if o.Kind == ptx.SymbolOperand && o.Symbol.CallParam {
		v := o.Symbol
		return Place{InFrame: true, Offset: l.fn.callParams + uint32(v.Offset)}, uint32(v.Bytes), max(v.Align, 1), nil
	}
	if o.Kind == ptx.SymbolOperand && o.Symbol.Space == ptx.ParamSpace && !l.fn.ptx.Entry {
		v := o.Symbol
		return Place{InFrame: true, Offset: uint32(v.Offset)}, uint32(v.Bytes), max(v.Align, 1), nil
	}
	class := ptx.R32
	bytes = 4
	if formal != nil && formal.Bytes > 0 {
		bytes = uint32(formal.Bytes)
	}
	if o.Kind == ptx.RegOperand && o.Reg.Index >= 0 && formal == nil {
		bytes = map[ptx.Class]uint32{ptx.R16: 2, ptx.R32: 4, ptx.R64: 8}[o.Reg.Class]
	}
	if bytes == 8 {
		class = ptx.R64
	}
	ref, err := l.source(o, class)
	return Place{Ref: ref}, bytes, uint64(max(bytes, 1)), err
}
