package code

import "github.com/phos-gpu/phos/internal/ptx"

// sharedLayout assigns offsets to shared variables. All dynamic ones start at the end of the static
// ones.
type sharedLayout struct {
	// definitions maps a variable of module scope to its definition.
	definitions map[*ptx.Var]*ptx.Var
	offsets     map[*ptx.Var]uint64
	bytes       uint64 // of the static ones
	// align is the alignment of the dynamic ones.
	align uint64
}

// definition returns the variable that a name of module scope stands for.
func (s *sharedLayout) definition(v *ptx.Var) *ptx.Var {
	if definition := s.definitions[v]; definition != nil {
		return definition
	}
	return v
}

// place assigns an offset.
func (s *sharedLayout) place(v *ptx.Var) {
	v = s.definition(v)
	if _, placed := s.offsets[v]; placed {
		return
	}
	if v.Bytes == 0 {
		s.align = max(s.align, frameAlign, v.Align)
		s.offsets[v] = 0 // unused: see offset
		return
	}
	at := alignUp(s.bytes, max(v.Align, 1))
	s.offsets[v] = at
	s.bytes = at + v.Bytes
}

// offset returns the offset of a variable. A dynamic one is at end, the end of the static ones.
func (s *sharedLayout) offset(v *ptx.Var, end uint64) uint64 {
	if v = s.definition(v); v.Bytes == 0 {
		return end
	}
	return s.offsets[v]
}

// sharedOf calls do for the shared variables that a function declares or names.
func sharedOf(f *ptx.Func, do func(*ptx.Var)) {
	for _, v := range f.Shared {
		do(v)
	}
	for i := range f.Insts {
		in := &f.Insts[i]
		if v := in.Addr.Symbol; v != nil && v.Space == ptx.Shared {
			do(v)
		}
		for _, o := range in.Src {
			if o.Symbol != nil && o.Symbol.Space == ptx.Shared {
				do(o.Symbol)
			}
		}
	}
}

// layoutShared places the shared variables of the kernel: those of all functions that it calls by
// name, and those of all that it may call by address.
func (l *lowering) layoutShared() {
	for _, fn := range l.order {
		sharedOf(fn.ptx, l.shared.place)
	}
	if l.indirect {
		seen := map[*ptx.Func]bool{}
		for _, f := range l.candidates() {
			l.reserveShared(f, seen)
		}
	}
	l.kernel.StaticShared = alignUp(l.shared.bytes, l.shared.align)
}

// reserveShared places what a function may need that is lowered later. Of a body that is not read
// yet, nothing is known: it may name all variables of its text.
func (l *lowering) reserveShared(f *ptx.Func, seen map[*ptx.Func]bool) {
	if f == nil || seen[f] {
		return
	}
	seen[f] = true
	sharedOf(f, l.shared.place)
	if m := l.linked.Modules[f]; m.Outlined() {
		for _, v := range m.Globals {
			if v.Space == ptx.Shared && l.shared.bytes+v.Bytes <= maxStaticShared {
				l.shared.place(v)
			}
		}
	}
	for i := range f.Insts {
		if call := f.Insts[i].Call; call != nil && call.Func != nil {
			l.reserveShared(l.linked.Functions[call.Func.Name], seen)
		}
	}
}

// checkShared returns an error if a callee has shared memory that was not reserved for it.
func (l *lowering) checkShared() error {
	for _, fn := range l.order {
		var missing *ptx.Var
		sharedOf(fn.ptx, func(v *ptx.Var) {
			if _, placed := l.shared.offsets[l.shared.definition(v)]; !placed && v.Bytes > 0 {
				missing = v
			}
		})
		if missing != nil {
			return &Refused{
				Function: fn.ptx.Name, Pos: fn.ptx.Pos,
				Text: "shared variable '" + missing.Name + "' of a function that is called by its address is not" +
					" known when the kernel starts",
			}
		}
	}
	return nil
}
