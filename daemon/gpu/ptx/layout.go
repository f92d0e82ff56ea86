package ptx

// alignUp rounds up to a power of two.
func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// place gives v the next place of a frame and returns false if the frame grows too large.
func place(v *Var, frameBytes *uint64) bool {
	v.Offset = alignUp(*frameBytes, max(v.Align, 1))
	if v.Bytes > maxFrameBytes || v.Offset > maxFrameBytes {
		return false
	}
	*frameBytes = v.Offset + v.Bytes
	return *frameBytes <= maxFrameBytes
}

// addFrameVariable enters a variable declared in a function. Shared and local variables have places of their own in the
// function's frame, whatever their scope; call parameters, which live no longer than their scope, share.
func (p *parser) addFrameVariable(d *declaration) {
	v, f := d.v, p.fn.f
	kept := &v
	if v.Space == Shared && v.Linkage == Extern {
		// Dynamic shared memory: it has no place in a frame.
		f.Shared = append(f.Shared, kept)
		p.declare(v.Name, symbol{kind: varSymbol, variable: kept, pos: v.Pos})
		return
	}
	var frame *uint64
	switch v.Space {
	case Shared:
		f.Shared, frame = append(f.Shared, kept), &f.SharedBytes
	case Local:
		f.Local, frame = append(f.Local, kept), &f.LocalBytes
	default:
		kept.CallParam = true
		f.CallParams, frame = append(f.CallParams, kept), &p.fn.callBytes
	}
	if !place(kept, frame) {
		p.errorAt(v.Pos, "'%s': more than %d bytes in one function", v.Name, maxFrameBytes)
	}
	f.CallParamBytes = max(f.CallParamBytes, p.fn.callBytes)
	p.declare(v.Name, symbol{kind: varSymbol, variable: kept, pos: v.Pos})
}

// layoutParams gives parameters, then return values, their places in a function's parameter block.
func (p *parser) layoutParams(f *Func) {
	f.ParamBytes = 0
	for _, list := range [][]*Var{f.Params, f.Returns} {
		for _, v := range list {
			if v.Space == ParamSpace && !place(v, &f.ParamBytes) {
				p.errorAt(v.Pos, "parameters of '%s': more than %d bytes", f.Name, maxFrameBytes)
			}
		}
	}
}
