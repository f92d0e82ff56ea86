#include "textflag.h"

// WHOLE moves 16 bytes of each lane of the mask. On processors with AVX an aligned move is atomic.
#define WHOLE(FROM, TO) \
	MOVQ v+0(FP), DI; \
	MOVQ memory+8(FP), SI; \
	MOVQ distance+16(FP), DX; \
	MOVL mask+24(FP), CX; \
	JMP  test; \
lane: \
	BSFL CX, AX; \
	LEAL -1(CX), R8; \
	ANDL R8, CX; \
	MOVQ (SI)(AX*8), BX; \
	SHLQ $4, AX; \
	VMOVDQU FROM, X0; \
	VMOVDQU X0, TO; \
test: \
	TESTL CX, CX; \
	JNE   lane; \
	RET

// The loops of package lanes with AVX2 and FMA: 8 lanes of 32 bits or 4 of 64 bits at a time. Each
// TEXT is one unrolled loop; the macros below are its parts. All loads are unaligned loads, which
// cost the same if memory is aligned.

#define ARGS \
	MOVQ d+0(FP), DI; \
	MOVQ a+8(FP), SI; \
	MOVQ b+16(FP), DX; \
	MOVQ c+24(FP), CX

// BINARY computes 8 or 4 lanes with one instruction of two operands.
#define BINARY(OP, N) \
	VMOVDQU (32*N)(SI), Y0; \
	OP      (32*N)(DX), Y0, Y0; \
	VMOVDQU Y0, (32*N)(DI)

#define UNARY(OP, N) \
	VMOVDQU (32*N)(SI), Y0; \
	OP      Y0, Y15, Y0; \
	VMOVDQU Y0, (32*N)(DI)

#define FOUR(STEP, OP) \
	STEP(OP, 0); \
	STEP(OP, 1); \
	STEP(OP, 2); \
	STEP(OP, 3)

#define EIGHT(STEP, OP) \
	FOUR(STEP, OP); \
	STEP(OP, 4); \
	STEP(OP, 5); \
	STEP(OP, 6); \
	STEP(OP, 7)

// FLOAT32 replaces NaN results by the canonical NaN in Y15.
#define FLOAT32(OP, N) \
	VMOVUPS   (32*N)(SI), Y0; \
	OP        (32*N)(DX), Y0, Y0; \
	VCMPPS    $3, Y0, Y0, Y1; \
	VBLENDVPS Y1, Y15, Y0, Y0; \
	VMOVUPS   Y0, (32*N)(DI)

#define FMA32(OP, N) \
	VMOVUPS   (32*N)(SI), Y1; \
	VMOVUPS   (32*N)(CX), Y0; \
	OP        (32*N)(DX), Y1, Y0; \
	VCMPPS    $3, Y0, Y0, Y1; \
	VBLENDVPS Y1, Y15, Y0, Y0; \
	VMOVUPS   Y0, (32*N)(DI)

#define FMA64(OP, N) \
	VMOVUPD (32*N)(SI), Y1; \
	VMOVUPD (32*N)(CX), Y0; \
	OP      (32*N)(DX), Y1, Y0; \
	VMOVUPD Y0, (32*N)(DI)

// CANONICAL sets all lanes of Y15 to 0x7fffffff, ONES to all ones.
#define ONES VPCMPEQD Y15, Y15, Y15
#define CANONICAL \
	ONES; \
	VPSRLD $1, Y15, Y15

#define MAD32(OP, N) \
	VMOVDQU (32*N)(SI), Y0; \
	OP      (32*N)(DX), Y0, Y0; \
	VPADDD  (32*N)(CX), Y0, Y0; \
	VMOVDQU Y0, (32*N)(DI)

#define COPY(OP, N) \
	OP (32*N)(SI), Y0; \
	OP Y0, (32*N)(DI)

#define CONVERT(OP, N) \
	OP      (32*N)(SI), Y0; \
	VMOVUPS Y0, (32*N)(DI)

// WIDEN extends 4 lanes of 32 bits.
#define WIDEN(OP, N) \
	OP      (16*N)(SI), Y0; \
	VMOVDQU Y0, (32*N)(DI)

#define MULWIDEU(OP, N) \
	VPMOVZXDQ (16*N)(SI), Y0; \
	VPMOVZXDQ (16*N)(DX), Y1; \
	VPMULUDQ  Y1, Y0, Y0; \
	VMOVDQU   Y0, (32*N)(DI)

#define MULWIDES(OP, N) \
	VPMOVZXDQ (16*N)(SI), Y0; \
	VPMOVZXDQ (16*N)(DX), Y1; \
	VPMULDQ   Y1, Y0, Y0; \
	VMOVDQU   Y0, (32*N)(DI)

#define MADWIDEU(OP, N) \
	VPMOVZXDQ (16*N)(SI), Y0; \
	VPMOVZXDQ (16*N)(DX), Y1; \
	VPMULUDQ  Y1, Y0, Y0; \
	VPADDQ    (32*N)(CX), Y0, Y0; \
	VMOVDQU   Y0, (32*N)(DI)

#define MADWIDES(OP, N) \
	VPMOVZXDQ (16*N)(SI), Y0; \
	VPMOVZXDQ (16*N)(DX), Y1; \
	VPMULDQ   Y1, Y0, Y0; \
	VPADDQ    (32*N)(CX), Y0, Y0; \
	VMOVDQU   Y0, (32*N)(DI)

#define SHIFT64(OP, N) \
	VMOVDQU   (32*N)(SI), Y0; \
	VPMOVZXDQ (16*N)(DX), Y1; \
	OP        Y1, Y0, Y0; \
	VMOVDQU   Y0, (32*N)(DI)

// AX collects the mask of a comparison. CMP* leave the result of 8 or 4 lanes in Y0.
#define CMPARGS \
	MOVQ a+0(FP), SI; \
	MOVQ b+8(FP), DX; \
	XORL AX, AX

#define MASK32(CMP, N) \
	CMP(N); \
	VMOVMSKPS Y0, BX; \
	SHLL      $(8*N), BX; \
	ORL       BX, AX

#define MASK64(CMP, N) \
	CMP(N); \
	VMOVMSKPD Y0, BX; \
	SHLL      $(4*N), BX; \
	ORL       BX, AX

#define EQD(N) \
	VMOVDQU  (32*N)(SI), Y0; \
	VPCMPEQD (32*N)(DX), Y0, Y0
#define LTD(N) \
	VMOVDQU  (32*N)(DX), Y0; \
	VPCMPGTD (32*N)(SI), Y0, Y0
#define LEU(N) \
	VMOVDQU  (32*N)(SI), Y1; \
	VPMINUD  (32*N)(DX), Y1, Y0; \
	VPCMPEQD Y1, Y0, Y0
#define EQQ(N) \
	VMOVDQU  (32*N)(SI), Y0; \
	VPCMPEQQ (32*N)(DX), Y0, Y0
#define LTQ(N) \
	VMOVDQU  (32*N)(DX), Y0; \
	VPCMPGTQ (32*N)(SI), Y0, Y0
#define EQPS(N) \
	VMOVUPS (32*N)(SI), Y0; \
	VCMPPS  $0, (32*N)(DX), Y0, Y0
#define LTPS(N) \
	VMOVUPS (32*N)(SI), Y0; \
	VCMPPS  $1, (32*N)(DX), Y0, Y0
#define LEPS(N) \
	VMOVUPS (32*N)(SI), Y0; \
	VCMPPS  $2, (32*N)(DX), Y0, Y0
#define NEUPS(N) \
	VMOVUPS (32*N)(SI), Y0; \
	VCMPPS  $4, (32*N)(DX), Y0, Y0

#define CMPEND \
	VZEROUPPER; \
	MOVL AX, ret+16(FP); \
	RET

// func add32AVX(d, a, b, c *V32)
TEXT ·add32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPADDD)
	VZEROUPPER
	RET

// func sub32AVX(d, a, b, c *V32)
TEXT ·sub32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPSUBD)
	VZEROUPPER
	RET

// func mul32AVX(d, a, b, c *V32)
TEXT ·mul32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPMULLD)
	VZEROUPPER
	RET

// func and32AVX(d, a, b, c *V32)
TEXT ·and32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPAND)
	VZEROUPPER
	RET

// func or32AVX(d, a, b, c *V32)
TEXT ·or32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPOR)
	VZEROUPPER
	RET

// func xor32AVX(d, a, b, c *V32)
TEXT ·xor32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPXOR)
	VZEROUPPER
	RET

// func shl32AVX(d, a, b, c *V32)
TEXT ·shl32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPSLLVD)
	VZEROUPPER
	RET

// func shrU32AVX(d, a, b, c *V32)
TEXT ·shrU32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPSRLVD)
	VZEROUPPER
	RET

// func shrS32AVX(d, a, b, c *V32)
TEXT ·shrS32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPSRAVD)
	VZEROUPPER
	RET

// func minU32AVX(d, a, b, c *V32)
TEXT ·minU32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPMINUD)
	VZEROUPPER
	RET

// func maxU32AVX(d, a, b, c *V32)
TEXT ·maxU32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPMAXUD)
	VZEROUPPER
	RET

// func minS32AVX(d, a, b, c *V32)
TEXT ·minS32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPMINSD)
	VZEROUPPER
	RET

// func maxS32AVX(d, a, b, c *V32)
TEXT ·maxS32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(BINARY, VPMAXSD)
	VZEROUPPER
	RET

// func not32AVX(d, a, b, c *V32)
TEXT ·not32AVX(SB), NOSPLIT, $0-32
	ARGS
	ONES
	FOUR(UNARY, VPXOR)
	VZEROUPPER
	RET

// func neg32AVX(d, a, b, c *V32)
TEXT ·neg32AVX(SB), NOSPLIT, $0-32
	ARGS
	VPXOR Y15, Y15, Y15
	FOUR(UNARY, VPSUBD)
	VZEROUPPER
	RET

// func copy32AVX(d, a, b, c *V32)
TEXT ·copy32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(COPY, VMOVDQU)
	VZEROUPPER
	RET

// func mad32AVX(d, a, b, c *V32)
TEXT ·mad32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(MAD32, VPMULLD)
	VZEROUPPER
	RET

// func addF32AVX(d, a, b, c *V32)
TEXT ·addF32AVX(SB), NOSPLIT, $0-32
	ARGS
	CANONICAL
	FOUR(FLOAT32, VADDPS)
	VZEROUPPER
	RET

// func subF32AVX(d, a, b, c *V32)
TEXT ·subF32AVX(SB), NOSPLIT, $0-32
	ARGS
	CANONICAL
	FOUR(FLOAT32, VSUBPS)
	VZEROUPPER
	RET

// func mulF32AVX(d, a, b, c *V32)
TEXT ·mulF32AVX(SB), NOSPLIT, $0-32
	ARGS
	CANONICAL
	FOUR(FLOAT32, VMULPS)
	VZEROUPPER
	RET

// func fmaF32AVX(d, a, b, c *V32)
TEXT ·fmaF32AVX(SB), NOSPLIT, $0-32
	ARGS
	CANONICAL
	FOUR(FMA32, VFMADD231PS)
	VZEROUPPER
	RET

// func floatS32AVX(d, a, b, c *V32)
TEXT ·floatS32AVX(SB), NOSPLIT, $0-32
	ARGS
	FOUR(CONVERT, VCVTDQ2PS)
	VZEROUPPER
	RET

// func add64AVX(d, a, b, c *V64)
TEXT ·add64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(BINARY, VPADDQ)
	VZEROUPPER
	RET

// func sub64AVX(d, a, b, c *V64)
TEXT ·sub64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(BINARY, VPSUBQ)
	VZEROUPPER
	RET

// func and64AVX(d, a, b, c *V64)
TEXT ·and64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(BINARY, VPAND)
	VZEROUPPER
	RET

// func or64AVX(d, a, b, c *V64)
TEXT ·or64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(BINARY, VPOR)
	VZEROUPPER
	RET

// func xor64AVX(d, a, b, c *V64)
TEXT ·xor64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(BINARY, VPXOR)
	VZEROUPPER
	RET

// func addF64AVX(d, a, b, c *V64)
TEXT ·addF64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(BINARY, VADDPD)
	VZEROUPPER
	RET

// func subF64AVX(d, a, b, c *V64)
TEXT ·subF64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(BINARY, VSUBPD)
	VZEROUPPER
	RET

// func mulF64AVX(d, a, b, c *V64)
TEXT ·mulF64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(BINARY, VMULPD)
	VZEROUPPER
	RET

// func not64AVX(d, a, b, c *V64)
TEXT ·not64AVX(SB), NOSPLIT, $0-32
	ARGS
	ONES
	EIGHT(UNARY, VPXOR)
	VZEROUPPER
	RET

// func neg64AVX(d, a, b, c *V64)
TEXT ·neg64AVX(SB), NOSPLIT, $0-32
	ARGS
	VPXOR Y15, Y15, Y15
	EIGHT(UNARY, VPSUBQ)
	VZEROUPPER
	RET

// func copy64AVX(d, a, b, c *V64)
TEXT ·copy64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(COPY, VMOVDQU)
	VZEROUPPER
	RET

// func fmaF64AVX(d, a, b, c *V64)
TEXT ·fmaF64AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(FMA64, VFMADD231PD)
	VZEROUPPER
	RET

// func widenU32AVX(d *V64, a, b *V32, c *V64)
TEXT ·widenU32AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(WIDEN, VPMOVZXDQ)
	VZEROUPPER
	RET

// func widenS32AVX(d *V64, a, b *V32, c *V64)
TEXT ·widenS32AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(WIDEN, VPMOVSXDQ)
	VZEROUPPER
	RET

// func mulWideU32AVX(d *V64, a, b *V32, c *V64)
TEXT ·mulWideU32AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(MULWIDEU, none)
	VZEROUPPER
	RET

// func mulWideS32AVX(d *V64, a, b *V32, c *V64)
TEXT ·mulWideS32AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(MULWIDES, none)
	VZEROUPPER
	RET

// func madWideU32AVX(d *V64, a, b *V32, c *V64)
TEXT ·madWideU32AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(MADWIDEU, none)
	VZEROUPPER
	RET

// func madWideS32AVX(d *V64, a, b *V32, c *V64)
TEXT ·madWideS32AVX(SB), NOSPLIT, $0-32
	ARGS
	EIGHT(MADWIDES, none)
	VZEROUPPER
	RET

// func shl64AVX(d, a *V64, b *V32)
TEXT ·shl64AVX(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	EIGHT(SHIFT64, VPSLLVQ)
	VZEROUPPER
	RET

// func shrU64AVX(d, a *V64, b *V32)
TEXT ·shrU64AVX(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	EIGHT(SHIFT64, VPSRLVQ)
	VZEROUPPER
	RET

// func eq32AVX(a, b *V32) uint32
TEXT ·eq32AVX(SB), NOSPLIT, $0-20
	CMPARGS
	FOUR(MASK32, EQD)
	CMPEND

// func ne32AVX(a, b *V32) uint32
TEXT ·ne32AVX(SB), NOSPLIT, $0-20
	CMPARGS
	FOUR(MASK32, EQD)
	NOTL AX
	CMPEND

// func ltS32AVX(a, b *V32) uint32
TEXT ·ltS32AVX(SB), NOSPLIT, $0-20
	CMPARGS
	FOUR(MASK32, LTD)
	CMPEND

// func leU32AVX(a, b *V32) uint32
TEXT ·leU32AVX(SB), NOSPLIT, $0-20
	CMPARGS
	FOUR(MASK32, LEU)
	CMPEND

// func eqF32AVX(a, b *V32) uint32
TEXT ·eqF32AVX(SB), NOSPLIT, $0-20
	CMPARGS
	FOUR(MASK32, EQPS)
	CMPEND

// func ltF32AVX(a, b *V32) uint32
TEXT ·ltF32AVX(SB), NOSPLIT, $0-20
	CMPARGS
	FOUR(MASK32, LTPS)
	CMPEND

// func leF32AVX(a, b *V32) uint32
TEXT ·leF32AVX(SB), NOSPLIT, $0-20
	CMPARGS
	FOUR(MASK32, LEPS)
	CMPEND

// func neuF32AVX(a, b *V32) uint32
TEXT ·neuF32AVX(SB), NOSPLIT, $0-20
	CMPARGS
	FOUR(MASK32, NEUPS)
	CMPEND

// func eq64AVX(a, b *V64) uint32
TEXT ·eq64AVX(SB), NOSPLIT, $0-20
	CMPARGS
	EIGHT(MASK64, EQQ)
	CMPEND

// func ne64AVX(a, b *V64) uint32
TEXT ·ne64AVX(SB), NOSPLIT, $0-20
	CMPARGS
	EIGHT(MASK64, EQQ)
	NOTL AX
	CMPEND

// func ltS64AVX(a, b *V64) uint32
TEXT ·ltS64AVX(SB), NOSPLIT, $0-20
	CMPARGS
	EIGHT(MASK64, LTQ)
	CMPEND

// steps are the distances of 8 consecutive 32-bit words.
DATA steps<>+0(SB)/8, $0
DATA steps<>+8(SB)/8, $4
DATA steps<>+16(SB)/8, $8
DATA steps<>+24(SB)/8, $12
DATA steps<>+32(SB)/8, $16
DATA steps<>+40(SB)/8, $20
DATA steps<>+48(SB)/8, $24
DATA steps<>+56(SB)/8, $28
GLOBL steps<>(SB), RODATA|NOPTR, $64

// A group is 8 lanes. GROUP sets R12 to the distance of the group's first address from the start of
// the site. It jumps to MISS unless the distance is aligned and the 8 words from there on are inside:
// R9 holds the limit minus 7. Y0 and Y1 receive the addresses, Y2 the first address in all lanes.
#define GROUP(N, MISS) \
	MOVQ         (64*N)(SI), R12; \
	ADDQ         R8, R12; \
	MOVQ         R12, R13; \
	RORQ         $2, R13; \
	CMPQ         R13, R9; \
	JAE          MISS; \
	VMOVDQU      (64*N)(SI), Y0; \
	VMOVDQU      (64*N+32)(SI), Y1; \
	VPBROADCASTQ (64*N)(SI), Y2

// CONSECUTIVE jumps to NEXT unless the 8 addresses are those of 8 consecutive words.
#define CONSECUTIVE(NEXT) \
	VPADDQ    Y14, Y2, Y3; \
	VPADDQ    Y15, Y2, Y4; \
	VPCMPEQQ  Y0, Y3, Y3; \
	VPCMPEQQ  Y1, Y4, Y4; \
	VPAND     Y3, Y4, Y3; \
	VMOVMSKPD Y3, BX; \
	CMPL      BX, $15; \
	JNE       NEXT

// UNIFORM jumps to NEXT unless the 8 addresses are the same.
#define UNIFORM(NEXT) \
	VPCMPEQQ  Y0, Y2, Y3; \
	VPCMPEQQ  Y1, Y2, Y4; \
	VPAND     Y3, Y4, Y3; \
	VMOVMSKPD Y3, BX; \
	CMPL      BX, $15; \
	JNE       NEXT

#define LOADGROUP(N, ELSE, DONE) \
	GROUP(N, DONE); \
	CONSECUTIVE(ELSE); \
	VMOVDQU (R10)(R12*1), Y5; \
	VMOVDQU Y5, (32*N)(DI); \
	ORL     $(255<<(8*N)), AX; \
	JMP     DONE; \
ELSE: \
	UNIFORM(DONE); \
	VPBROADCASTD (R10)(R12*1), Y5; \
	VMOVDQU      Y5, (32*N)(DI); \
	ORL          $(255<<(8*N)), AX; \
DONE:

#define STOREGROUP(N, DONE) \
	GROUP(N, DONE); \
	CONSECUTIVE(DONE); \
	VMOVDQU (32*N)(DI), Y5; \
	VMOVDQU Y5, (R10)(R12*1); \
	ORL     $(255<<(8*N)), AX; \
DONE:

#define ACCESSARGS \
	MOVQ    v+0(FP), DI; \
	MOVQ    a+8(FP), SI; \
	MOVQ    offset+16(FP), R8; \
	MOVQ    limit+24(FP), R9; \
	MOVQ    host+32(FP), R10; \
	XORL    AX, AX; \
	SUBQ    $7, R9; \
	JLS     none; \
	VMOVDQU steps<>(SB), Y14; \
	VMOVDQU steps<>+32(SB), Y15

// func load32AVX(v *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32
TEXT ·load32AVX(SB), NOSPLIT, $0-44
	ACCESSARGS
	LOADGROUP(0, e0, d0)
	LOADGROUP(1, e1, d1)
	LOADGROUP(2, e2, d2)
	LOADGROUP(3, e3, d3)
none:
	VZEROUPPER
	MOVL AX, ret+40(FP)
	RET

// func store32AVX(v *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32
TEXT ·store32AVX(SB), NOSPLIT, $0-44
	ACCESSARGS
	STOREGROUP(0, d0)
	STOREGROUP(1, d1)
	STOREGROUP(2, d2)
	STOREGROUP(3, d3)
none:
	VZEROUPPER
	MOVL AX, ret+40(FP)
	RET

// func load128AVX(v *V128, memory *Pointers, distance uintptr, mask uint32)
TEXT ·load128AVX(SB), NOSPLIT, $0-28
	WHOLE((BX)(DX*1), (DI)(AX*1))

// func store128AVX(v *V128, memory *Pointers, distance uintptr, mask uint32)
TEXT ·store128AVX(SB), NOSPLIT, $0-28
	WHOLE((DI)(AX*1), (BX)(DX*1))
