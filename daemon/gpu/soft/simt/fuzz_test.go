package simt_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// Random programs are generated as trees, printed as PTX for the interpreter and evaluated here,
// one thread at a time. The two sides share no code: the evaluator does not know warps or PTX.

const (
	fuzzRegs = 6 // of each class: 32-bit, 64-bit, float
)

type state struct {
	r [fuzzRegs]uint32
	q [fuzzRegs]uint64
	f [fuzzRegs]float32
}

// statement is a node of a program. emit prints it as PTX, do evaluates it.
type statement interface {
	emit(w *writer)
	do(s *state)
}

type writer struct {
	strings.Builder
	labels int
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, "\t"+format+"\n", args...) }

// simple is one instruction and its evaluation.
type simple struct {
	text string
	run  func(s *state)
}

func (x simple) emit(w *writer) { w.line("%s", x.text) }
func (x simple) do(s *state)    { x.run(s) }

type sequence []statement

func (x sequence) emit(w *writer) {
	for _, s := range x {
		s.emit(w)
	}
}

func (x sequence) do(s *state) {
	for _, step := range x {
		step.do(s)
	}
}

// choice is if/else on a comparison of two registers.
type choice struct {
	a, b    int
	yes, no statement
}

func (x choice) emit(w *writer) {
	w.labels++
	n := w.labels
	w.line("setp.lt.u32 %%p1, %%r%d, %%r%d;", x.a, x.b)
	w.line("@!%%p1 bra ELSE%d;", n)
	x.yes.emit(w)
	w.line("bra END%d;", n)
	w.line("ELSE%d:", n)
	x.no.emit(w)
	w.line("END%d:", n)
}

func (x choice) do(s *state) {
	if s.r[x.a] < s.r[x.b] {
		x.yes.do(s)
	} else {
		x.no.do(s)
	}
}

// loop repeats as often as the low three bits of a register say. It exits early when two registers
// are ordered.
type loop struct {
	count, a, b int // count is the register whose low three bits are the count
	depth       int
	body        statement
}

func (x loop) emit(w *writer) {
	w.labels++
	n := w.labels
	counter := fmt.Sprintf("%%c%d", x.depth)
	w.line("and.b32 %s, %%r%d, 7;", counter, x.count)
	w.line("LOOP%d:", n)
	w.line("setp.eq.u32 %%p2, %s, 0;", counter)
	w.line("@%%p2 bra OUT%d;", n)
	w.line("sub.u32 %s, %s, 1;", counter, counter)
	x.body.emit(w)
	w.line("setp.ge.s32 %%p3, %%r%d, %%r%d;", x.a, x.b)
	w.line("@%%p3 bra LOOP%d;", n)
	w.line("OUT%d:", n)
}

func (x loop) do(s *state) {
	for n := s.r[x.count] & 7; n > 0; n-- {
		x.body.do(s)
		if int32(s.r[x.a]) < int32(s.r[x.b]) {
			return
		}
	}
}

func canonical(x float32) float32 {
	if x != x {
		return math.Float32frombits(0x7fffffff)
	}
	return x
}

// instruction returns a random simple statement.
func instruction(random *rand.Rand) statement {
	d, a, b, c := random.IntN(fuzzRegs), random.IntN(fuzzRegs), random.IntN(fuzzRegs), random.IntN(fuzzRegs)
	imm := random.Uint32() >> random.UintN(32)
	r3 := func(op string, f func(x, y uint32) uint32) statement {
		return simple{
			fmt.Sprintf("%s %%r%d, %%r%d, %%r%d;", op, d, a, b),
			func(s *state) { s.r[d] = f(s.r[a], s.r[b]) },
		}
	}
	q3 := func(op string, f func(x, y uint64) uint64) statement {
		return simple{
			fmt.Sprintf("%s %%q%d, %%q%d, %%q%d;", op, d, a, b),
			func(s *state) { s.q[d] = f(s.q[a], s.q[b]) },
		}
	}
	f3 := func(op string, f func(x, y float32) float32) statement {
		return simple{
			fmt.Sprintf("%s %%f%d, %%f%d, %%f%d;", op, d, a, b),
			func(s *state) { s.f[d] = canonical(f(s.f[a], s.f[b])) },
		}
	}
	switch random.IntN(28) {
	case 0:
		return r3("add.u32", func(x, y uint32) uint32 { return x + y })
	case 1:
		return r3("sub.s32", func(x, y uint32) uint32 { return x - y })
	case 2:
		return r3("mul.lo.u32", func(x, y uint32) uint32 { return x * y })
	case 3:
		return r3("mul.hi.u32", func(x, y uint32) uint32 { return uint32(uint64(x) * uint64(y) >> 32) })
	case 4:
		return r3("xor.b32", func(x, y uint32) uint32 { return x ^ y })
	case 5:
		return r3("shl.b32", func(x, y uint32) uint32 { return uint32(uint64(x) << min(y, 40)) })
	case 6:
		return r3("shr.s32", func(x, y uint32) uint32 { return uint32(int32(x) >> min(y, 31)) })
	case 7:
		return r3("min.s32", func(x, y uint32) uint32 { return uint32(min(int32(x), int32(y))) })
	case 8:
		return r3("div.u32", func(x, y uint32) uint32 {
			if y == 0 {
				return math.MaxUint32
			}
			return x / y
		})
	case 9:
		return simple{
			fmt.Sprintf("mad.lo.s32 %%r%d, %%r%d, %%r%d, %%r%d;", d, a, b, c),
			func(s *state) { s.r[d] = s.r[a]*s.r[b] + s.r[c] },
		}
	case 10:
		return simple{fmt.Sprintf("mov.u32 %%r%d, %d;", d, imm), func(s *state) { s.r[d] = imm }}
	case 11:
		return simple{
			fmt.Sprintf("popc.b32 %%r%d, %%r%d;", d, a),
			func(s *state) { s.r[d] = uint32(bits.OnesCount32(s.r[a])) },
		}
	case 12:
		return simple{
			fmt.Sprintf("clz.b32 %%r%d, %%r%d;", d, a),
			func(s *state) { s.r[d] = uint32(bits.LeadingZeros32(s.r[a])) },
		}
	case 13:
		return q3("add.s64", func(x, y uint64) uint64 { return x + y })
	case 14:
		return q3("mul.lo.u64", func(x, y uint64) uint64 { return x * y })
	case 15:
		return q3("mul.hi.u64", func(x, y uint64) uint64 { hi, _ := bits.Mul64(x, y); return hi })
	case 16:
		return simple{fmt.Sprintf("mad.wide.s32 %%q%d, %%r%d, %%r%d, %%q%d;", d, a, b, c), func(s *state) {
			s.q[d] = uint64(int64(int32(s.r[a]))*int64(int32(s.r[b]))) + s.q[c]
		}}
	case 17:
		return simple{fmt.Sprintf("cvt.u32.u64 %%r%d, %%q%d;", d, a), func(s *state) { s.r[d] = uint32(s.q[a]) }}
	case 18:
		return simple{
			fmt.Sprintf("cvt.s64.s32 %%q%d, %%r%d;", d, a),
			func(s *state) { s.q[d] = uint64(int64(int32(s.r[a]))) },
		}
	case 19:
		return f3("add.rn.f32", func(x, y float32) float32 { return x + y })
	case 20:
		return f3("mul.rn.f32", func(x, y float32) float32 { return x * y })
	case 21:
		return simple{
			fmt.Sprintf("cvt.rn.f32.s32 %%f%d, %%r%d;", d, a),
			func(s *state) { s.f[d] = float32(int32(s.r[a])) },
		}
	case 22:
		return simple{fmt.Sprintf("mov.b32 %%r%d, %%f%d;", d, a), func(s *state) { s.r[d] = math.Float32bits(s.f[a]) }}
	case 23:
		return simple{
			fmt.Sprintf("setp.gtu.f32 %%p4, %%f%d, %%f%d;\n\tselp.b32 %%r%d, %%r%d, %d, %%p4;", a, b, d, c, imm),
			func(s *state) {
				if s.f[a] <= s.f[b] {
					s.r[d] = imm
				} else {
					s.r[d] = s.r[c]
				}
			},
		}
	case 24:
		return simple{
			fmt.Sprintf("setp.eq.u32 %%p5, %%r%d, %%r%d;\n\t@%%p5 add.u32 %%r%d, %%r%d, %d;", a, b, d, c, imm),
			func(s *state) {
				if s.r[a] == s.r[b] {
					s.r[d] = s.r[c] + imm
				}
			},
		}
	case 25:
		return simple{
			fmt.Sprintf("add.cc.u32 %%r%d, %%r%d, %%r%d;\n\taddc.u32 %%r%d, %%r%d, 0;", d, a, b, c, c),
			func(s *state) {
				sum, carry := bits.Add32(s.r[a], s.r[b], 0)
				s.r[d] = sum
				s.r[c] += carry
			},
		}
	case 26:
		return simple{
			fmt.Sprintf("mov.b64 {%%r%d, %%x}, %%q%d;\n\tmov.b64 %%q%d, {%%x, %%r%d};", d, a, b, c),
			func(s *state) {
				high := s.q[a] >> 32
				s.r[d] = uint32(s.q[a])
				s.q[b] = high | uint64(s.r[c])<<32
			},
		}
	}
	return simple{
		fmt.Sprintf("st.local.u32 [cell+%d], %%r%d;\n\tld.local.u16 %%r%d, [cell+%d];", 4*(a%4), b, d, 4*(a%4)+2),
		func(s *state) {
			s.r[d] = s.r[b] >> 16
		},
	}
}

func program(random *rand.Rand, depth, length int) statement {
	var list sequence
	for range length {
		a, b, c := random.IntN(fuzzRegs), random.IntN(fuzzRegs), random.IntN(fuzzRegs)
		switch {
		case depth < 3 && random.IntN(6) == 0:
			list = append(list, choice{
				a: a, b: b, yes: program(random, depth+1, 1+random.IntN(4)), no: program(random, depth+1, random.IntN(4)),
			})
		case depth < 3 && random.IntN(8) == 0:
			list = append(list, loop{
				count: a, a: b, b: c, depth: depth, body: program(random, depth+1, 1+random.IntN(4)),
			})
		default:
			list = append(list, instruction(random))
		}
	}
	return list
}

const fuzzBytes = fuzzRegs * 16

func fuzzText(p statement) string {
	var w writer
	p.emit(&w)
	var load, store strings.Builder
	for i := range fuzzRegs {
		fmt.Fprintf(&load, "\tmad.lo.u32 %%r%d, %%tid, %d, %d;\n\txor.b32 %%r%d, %%r%d, %%ctaid.x;\n",
			i, 7*i*i+1, i*1000003, i, i)
		fmt.Fprintf(&load, "\tmul.wide.u32 %%q%d, %%r%d, %d;\n\tcvt.rn.f32.u32 %%f%d, %%r%d;\n", i, i, 0x9E3779B1, i, i)
		fmt.Fprintf(
			&store,
			"\tst.global.u32 [%%at+%d], %%r%d;\n\tst.global.f32 [%%at+%d], %%f%d;\n\tst.global.u64 [%%at+%d], %%q%d;\n",
			16*i, i, 16*i+4, i, 16*i+8, i,
		)
	}
	return header + ".visible .entry k(.param .u64 out)\n{\n" + `
	.reg .pred %p<8>;
	.reg .b32 %r<8>;
	.reg .b32 %c<4>;
	.reg .b32 %tid, %x;
	.reg .b64 %q<8>;
	.reg .b64 %at, %base;
	.reg .f32 %f<8>;
	.local .align 4 .b8 cell[16];
	ld.param.u64 %base, [out];
	mov.u32 %x, %ctaid.x;
	mov.u32 %r0, %ntid.x;
	mov.u32 %tid, %tid.x;
	mad.lo.u32 %x, %x, %r0, %tid;
	mul.wide.u32 %at, %x, ` + fmt.Sprint(fuzzBytes) + `;
	add.s64 %at, %at, %base;
` + strings.ReplaceAll(load.String(), "%ctaid.x", "%x") + w.String() + store.String() + "\tret;\n}\n"
}

func fuzzStart(thread, tid uint32) *state {
	s := &state{}
	for i := range fuzzRegs {
		s.r[i] = (tid*uint32(7*i*i+1) + uint32(i*1000003)) ^ thread
		s.q[i] = uint64(s.r[i]) * 0x9E3779B1
		s.f[i] = float32(s.r[i])
	}
	return s
}

func runRandomProgram(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	p := program(random, 0, 25)
	text := fuzzText(p)
	const grid, block = 2, 45
	m := newMachine(t)
	out, _, err := m.run(text, grid, block, grid*block*fuzzBytes)
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, text)
	}
	words := m.read32(out, grid*block*fuzzBytes/4)
	for thread := range uint32(grid * block) {
		s := fuzzStart(thread, thread%block)
		p.do(s)
		for i := range fuzzRegs {
			at := words[int(thread)*fuzzBytes/4+4*i:]
			got := [3]uint64{uint64(at[0]), uint64(at[1]), uint64(at[2]) | uint64(at[3])<<32}
			want := [3]uint64{uint64(s.r[i]), uint64(math.Float32bits(s.f[i])), s.q[i]}
			if got != want {
				t.Fatalf("seed %d thread %d register %d: got %#x, want %#x\n%s", seed, thread, i, got, want, text)
			}
		}
	}
}

func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(150) {
		runRandomProgram(t, seed)
	}
}

func FuzzRandomPrograms(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed + 1000)
	}
	f.Fuzz(runRandomProgram)
}
