package ptx

import (
	"slices"
)

// arithmeticRows are the integer instructions.
var arithmeticRows = []row{
	{OpAdd, "add", "$int|u16x2|s16x2", "d a a"},
	{OpAdd, "add", "sat s32", "d a a"},
	{OpAdd, "add", "cc $wide", "d a a"},
	{OpAddc, "addc", "cc? $wide", "d a a"},
	{OpSub, "sub", "$int", "d a a"},
	{OpSub, "sub", "sat s32", "d a a"},
	{OpSub, "sub", "cc $wide", "d a a"},
	{OpSubc, "subc", "cc? $wide", "d a a"},
	{OpMul, "mul", "$mul $int", "d a a"},
	{OpMul, "mul", "$wmul u16|s16|u32|s32", "d.wide a a"},
	{OpMad, "mad", "$mul $int", "d a a a"},
	{OpMad, "mad", "$wmul u16|s16|u32|s32", "d.wide a a a.wide"},
	{OpMad, "mad", "$mul sat s32", "d a a a"},
	{OpMad, "mad", "$mul cc $wide", "d a a a"},
	{OpMadc, "madc", "$mul cc? $wide", "d a a a"},
	{OpMul24, "mul24", "$mul u32|s32", "d a a"},
	{OpMad24, "mad24", "$mul u32|s32", "d a a a"},
	{OpMad24, "mad24", "$mul sat s32", "d a a a"},
	{OpSad, "sad", "$int", "d a a a"},
	{OpDiv, "div", "$int", "d a a"},
	{OpRem, "rem", "$int", "d a a"},
	{OpAbs, "abs", "s16|s32|s64", "d a"},
	{OpNeg, "neg", "s16|s32|s64", "d a"},
	{OpMin, "min", "$int|u16x2|s16x2", "d a a"},
	{OpMin, "min", "relu s32|s16x2", "d a a"},
	{OpMax, "max", "$int|u16x2|s16x2", "d a a"},
	{OpMax, "max", "relu s32|s16x2", "d a a"},
	{OpPopc, "popc", "b32|b64", "d.u32 a"},
	{OpClz, "clz", "b32|b64", "d.u32 a"},
	{OpBfind, "bfind", "shiftamt? $wide", "d.u32 a"},
	{OpFns, "fns", "b32", "d a a a.s32"},
	{OpBrev, "brev", "b32|b64", "d a"},
	{OpBfe, "bfe", "$wide", "d a a.u32 a.u32"},
	{OpBfi, "bfi", "b32|b64", "d a a a.u32 a.u32"},
	{OpSzext, "szext", "$clamp u32|s32", "d a a.u32"},
	{OpBmsk, "bmsk", "$clamp b32", "d a a"},
	{OpDp4a, "dp4a", "u32|s32 u32|s32", "d a a.src a"},
	{OpDp2a, "dp2a", "$dp u32|s32 u32|s32", "d a a.src a"},
}

// logicRows are the instructions on bits.
var logicRows = []row{
	{OpAnd, "and", "pred|b16|b32|b64", "d a a"},
	{OpOr, "or", "pred|b16|b32|b64", "d a a"},
	{OpXor, "xor", "pred|b16|b32|b64", "d a a"},
	{OpNot, "not", "pred|b16|b32|b64", "d a"},
	{OpCnot, "cnot", "$bits", "d a"},
	{OpLop3, "lop3", "b32", "d a a a i"},
	{OpLop3, "lop3", "$orand b32", "d|p_ a a a i a.pred"},
	{OpShl, "shl", "$bits", "d a a.u32"},
	{OpShr, "shr", "$bits|$int", "d a a.u32"},
	{OpShf, "shf", "$shf $shfw b32", "d a a a.u32"},
	{OpPrmt, "prmt", "b32 $prmt?", "d a a a"},
}

// floatRows are the floating point instructions and the comparisons of all types.
var floatRows = slices.Concat(sumRows(OpAdd, "add"), sumRows(OpSub, "sub"), sumRows(OpMul, "mul"),
	signRows(OpAbs, "abs"), signRows(OpNeg, "neg"), extremeRows(OpMin, "min"), extremeRows(OpMax, "max"),
	functionRows, compareRows())

// sumRows are the forms that add, sub and mul share.
func sumRows(op Op, name string) []row {
	return []row{
		{op, name, "$rnd? ftz? sat? f32", "d a a"},
		{op, name, "$rnd? f64", "d a a"},
		{op, name, "rn? ftz? sat? $half", "d a a"},
		{op, name, "rn? $bhalf", "d a a"},
	}
}

func signRows(op Op, name string) []row {
	return []row{
		{op, name, "ftz? f32|f16|f16x2", "d a"},
		{op, name, "f64|bf16|bf16x2", "d a"},
	}
}

func extremeRows(op Op, name string) []row {
	return []row{
		{op, name, "ftz? NaN? f32|f16|f16x2", "d a a"},
		{op, name, "ftz? NaN? xorsign abs f32|f16|f16x2", "d a a"},
		{op, name, "NaN? $bhalf", "d a a"},
		{op, name, "NaN? xorsign abs $bhalf", "d a a"},
		{op, name, "f64", "d a a"},
	}
}

var functionRows = []row{
	{OpFma, "fma", "$rnd ftz? sat? f32", "d a a a"},
	{OpFma, "fma", "$rnd f64", "d a a a"},
	{OpFma, "fma", "rn ftz? sat? $half", "d a a a"},
	{OpFma, "fma", "rn ftz? relu $half", "d a a a"},
	{OpFma, "fma", "rn relu? $bhalf", "d a a a"},
	// mad of floats has been a fused operation on every target that is left.
	{OpFma, "mad", "$rnd ftz? sat? f32", "d a a a"},
	{OpFma, "mad", "$rnd f64", "d a a a"},
	{OpDiv, "div", "approx|full|$rnd ftz? f32", "d a a"},
	{OpDiv, "div", "$rnd f64", "d a a"},
	{OpRcp, "rcp", "approx|$rnd ftz? f32", "d a"},
	{OpRcp, "rcp", "$rnd f64", "d a"},
	{OpRcp, "rcp", "approx ftz f64", "d a"},
	{OpSqrt, "sqrt", "approx|$rnd ftz? f32", "d a"},
	{OpSqrt, "sqrt", "$rnd f64", "d a"},
	{OpRsqrt, "rsqrt", "approx ftz? f32|f64", "d a"},
	{OpSin, "sin", "approx ftz? f32", "d a"},
	{OpCos, "cos", "approx ftz? f32", "d a"},
	{OpLg2, "lg2", "approx ftz? f32", "d a"},
	{OpEx2, "ex2", "approx ftz? f32", "d a"},
	{OpEx2, "ex2", "approx $half", "d a"},
	{OpEx2, "ex2", "approx ftz $bhalf", "d a"},
	{OpTanh, "tanh", "approx f32|f16|f16x2|bf16|bf16x2", "d a"},
	{OpTestp, "testp", "$testp f32|f64", "d.pred a"},
	{OpCopysign, "copysign", "f32|f64", "d a a"},
	{OpSelp, "selp", "$data", "d a a a.pred"},
	{OpSlct, "slct", "$data s32", "d a a a.src"},
	{OpSlct, "slct", "ftz? $data f32", "d a a a.src"},
}

// compareRows are setp and set, each with and without a combining predicate.
func compareRows() (rows []row) {
	for _, combine := range []struct{ mods, params string }{{"", ""}, {" $bool", " a.pred"}} {
		for _, mods := range []string{
			"$eqne b16|b32|b64", "$ucmp u16|u32|u64", "$scmp s16|s32|s64",
			"$fcmp ftz? f32|f16|f16x2", "$fcmp f64|bf16|bf16x2",
		} {
			rows = append(rows, row{OpSetp, "setp", mods + combine.mods, "d.pred|p_ a a" + combine.params})
		}
		for _, mods := range []string{
			"$eqne u32|s32|f32 b16|b32|b64", "$ucmp u32|s32|f32 u16|u32|u64", "$scmp u32|s32|f32 s16|s32|s64",
			"$fcmp ftz? u32|s32|f32 f32", "$fcmp u32|s32|f32 f64",
			"$eqne f16|bf16 b16|b32|b64", "$ucmp f16|bf16 u16|u32|u64", "$scmp f16|bf16 s16|s32|s64",
			"$fcmp ftz? f16 f32|f16", "$fcmp f16 f64", "$fcmp bf16 f16|f32|f64|bf16",
			"$fcmp ftz? u16|s16|u32|s32 f16", "$fcmp u16|s16|u32|s32 bf16",
			"$fcmp ftz? u32|s32|f16x2 f16x2", "$fcmp u32|s32|bf16x2 bf16x2",
		} {
			rows = append(rows, row{OpSet, "set", mods + combine.mods, "d a.src a.src" + combine.params})
		}
	}
	return rows
}
