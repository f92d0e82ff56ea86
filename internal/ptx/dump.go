package ptx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// flagNames are in the order of printing; abs belongs to xorsign.
var flagNames = []struct {
	flag Flag
	name string
}{
	{Approx, ".approx"},
	{Full, ".full"},
	{FTZ, ".ftz"},
	{NaN, ".NaN"},
	{XorSign, ".xorsign.abs"},
	{Relu, ".relu"},
	{Sat, ".sat"},
	{SatFinite, ".satfinite"},
	{Wrap, ".wrap"},
	{Volatile, ".volatile"},
	{CC, ".cc"},
	{Sync, ".sync"},
	{Uniform, ".uni"},
}

// String formats the instruction like PTX, with registers by class and number: %p3 is a predicate,
// %h has 16 bits, %r 32, %d 64.
func (i *Inst) String() string {
	var b strings.Builder
	if i.Guard.Reg >= 0 {
		b.WriteByte('@')
		if i.Guard.Negated {
			b.WriteByte('!')
		}
		fmt.Fprintf(&b, "%%p%d ", i.Guard.Reg)
	}
	i.writeOpcode(&b)
	for n, operand := range i.operandTexts() {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		b.WriteString(operand)
	}
	return b.String()
}

func (i *Inst) writeOpcode(b *strings.Builder) {
	b.WriteString(i.Op.String())
	dot := func(s string) {
		if s != "" {
			b.WriteByte('.')
			b.WriteString(s)
		}
	}
	dot(i.Mode.String())
	dot(i.Cmp.String())
	dot(i.Bool.String())
	dot(i.Round.String())
	for _, f := range flagNames {
		if i.Flags&f.flag != 0 {
			b.WriteString(f.name)
		}
	}
	dot(i.Space.String())
	dot(i.Atom.String())
	if i.Vec > 1 && i.Op != OpPack && i.Op != OpUnpack {
		dot("v" + strconv.Itoa(int(i.Vec)))
	}
	if i.Type != NoType {
		dot(i.Type.String())
	}
	if i.SrcType != NoType {
		dot(i.SrcType.String())
	}
	if i.ThirdType != NoType {
		dot(i.ThirdType.String())
	}
}

// operandTexts formats the operands in PTX order.
func (i *Inst) operandTexts() (texts []string) {
	switch i.Op {
	case OpBra:
		return []string{"@" + strconv.Itoa(int(i.Target))}
	case OpCall:
		return i.Call.operandTexts()
	case OpMma:
		return i.fragmentTexts()
	}
	vector := i.Vec > 1
	dst := operandList(i.Dst, i.typeOf, vector && i.Op != OpPack)
	if len(dst) > 1 {
		dst = []string{strings.Join(dst, "|")}
	}
	src := operandList(i.Src, i.typeOf, vector && i.Op != OpUnpack)
	texts = append(texts, dst...)
	if i.addressed() {
		texts = append(texts, i.Addr.String())
	}
	if i.From != nil {
		texts = append(texts, i.From.String())
	}
	texts = append(texts, src...)
	if i.Op == OpBrx {
		texts = append(texts, fmt.Sprint(i.Targets))
	}
	return texts
}

// typeOf returns the type for formatting immediates: floats as floats.
func (i *Inst) typeOf() Type { return i.Type }

// addressed reports whether the instruction has a memory operand.
func (i *Inst) addressed() bool {
	switch i.Op {
	case OpLd, OpLdu, OpSt, OpAtom, OpRed, OpPrefetch, OpLdmatrix, OpStmatrix, OpCopyAsync:
		return true
	}
	return false
}

// operandList formats operands, in braces if they are a vector's elements.
func operandList(ops []Operand, typ func() Type, vector bool) (texts []string) {
	for i := range ops {
		if ops[i].Kind != NoOperand {
			texts = append(texts, ops[i].format(typ()))
		}
	}
	if vector && len(texts) > 0 {
		return []string{"{" + strings.Join(texts, ", ") + "}"}
	}
	return texts
}

// format returns the operand as PTX text; t decides how a constant is written.
func (o *Operand) format(t Type) string {
	switch o.Kind {
	case RegOperand:
		if o.Negated {
			return "!" + o.Reg.String()
		}
		return o.Reg.String()
	case ImmOperand:
		switch {
		case t == F32:
			return fmt.Sprintf("0f%08X", o.Imm)
		case t == F64:
			return fmt.Sprintf("0d%016X", o.Imm)
		case t.IsSigned() || int64(o.Imm) > 0 || o.Imm > math.MaxInt64 && t.Bits() < 64:
			return strconv.FormatInt(int64(o.Imm), 10)
		}
		return strconv.FormatUint(o.Imm, 10)
	case SpecialOperand:
		return o.Special.String()
	case SymbolOperand:
		return o.Symbol.Name + signed(o.Offset)
	case FuncOperand:
		return o.Func.Name
	}
	return ""
}

// String formats a register by class and number; "_" for none.
func (r Reg) String() string {
	if r.Index < 0 {
		return "_"
	}
	return fmt.Sprintf("%%%s%d", r.Class, r.Index)
}

// String formats the address in brackets.
func (a Address) String() string {
	switch {
	case a.Reg.Index >= 0:
		return "[" + a.Reg.String() + signed(a.Offset) + "]"
	case a.Symbol != nil:
		return "[" + a.Symbol.Name + signed(a.Offset) + "]"
	}
	return fmt.Sprintf("[%#x]", uint64(a.Offset))
}

// signed formats an offset with its sign.
func signed(offset int64) string {
	if offset == 0 {
		return ""
	}
	return fmt.Sprintf("%+d", offset)
}

// operandTexts formats the results, the function or its register, and the arguments.
func (c *Call) operandTexts() []string {
	name := c.Indirect.String()
	if c.Func != nil {
		name = c.Func.Name
	}
	list := func(ops []Operand) string {
		return "(" + strings.Join(operandList(ops, func() Type { return NoType }, false), ", ") + ")"
	}
	return []string{list(c.Rets), name, list(c.Args)}
}

// Func returns the function with a name; nil if there is none.
func (m *Module) Func(name string) *Func {
	for _, f := range m.Funcs {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Dump formats the whole module, for tests and debugging: declarations, offsets, and every
// instruction.
func (m *Module) Dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d.%d target %s\n", m.Version.Major, m.Version.Minor, m.Target)
	for _, v := range m.Globals {
		v.dump(&b, "")
	}
	for _, f := range m.Funcs {
		f.dump(&b)
	}
	return b.String()
}

func (v *Var) dump(b *strings.Builder, indent string) {
	space := v.Space.String()
	if v.Space == Generic {
		space = "reg"
	}
	fmt.Fprintf(
		b,
		"%s%s %s %s: %d bytes, align %d, offset %d",
		indent,
		v.Linkage,
		space,
		v.Name,
		v.Bytes,
		v.Align,
		v.Offset,
	)
	if v.Init != nil {
		fmt.Fprintf(b, ", init %x", v.Init)
	}
	b.WriteByte('\n')
	for _, r := range v.Relocs {
		name := ""
		if r.Symbol != nil {
			name = r.Symbol.Name
		} else {
			name = r.Func.Name
		}
		fmt.Fprintf(
			b,
			"%s  at %d, %d bytes: %s%s generic=%t\n",
			indent,
			r.Offset,
			r.Bytes,
			name,
			signed(r.Addend),
			r.Generic,
		)
	}
}

func (f *Func) dump(b *strings.Builder) {
	kind := "func"
	if f.Entry {
		kind = "entry"
	}
	fmt.Fprintf(b, "%s %s %s: params %d, shared %d, local %d, calls %d, registers %v\n", f.Linkage, kind, f.Name,
		f.ParamBytes, f.SharedBytes, f.LocalBytes, f.CallParamBytes, f.Registers)
	if f.MaxThreads != [3]uint32{} || f.RequiredThreads != [3]uint32{} || f.MinBlocks != 0 || f.MaxRegisters != 0 {
		fmt.Fprintf(b, "  threads at most %v, required %v, blocks %d, registers %d\n", f.MaxThreads, f.RequiredThreads,
			f.MinBlocks, f.MaxRegisters)
	}
	for _, list := range [][]*Var{f.Returns, f.Params, f.Shared, f.Local, f.CallParams} {
		for _, v := range list {
			v.dump(b, "  ")
		}
	}
	for i := range f.Insts {
		fmt.Fprintf(b, "%4d  %s\n", i, &f.Insts[i])
	}
}
