#include "textflag.h"

// The compression function of BLAKE3 on 16 inputs at once: lane i of every vector belongs to input i. Z0 to Z15 are the
// state, Z16 to Z31 the message block, transposed while it is loaded, so that nothing is spilled in the rounds. Gathering
// the message instead takes longer than the rounds do.

DATA ·initial+0(SB)/4, $0x6A09E667
DATA ·initial+4(SB)/4, $0xBB67AE85
DATA ·initial+8(SB)/4, $0x3C6EF372
DATA ·initial+12(SB)/4, $0xA54FF53A
DATA ·initial+16(SB)/4, $0x510E527F
DATA ·initial+20(SB)/4, $0x9B05688C
DATA ·initial+24(SB)/4, $0x1F83D9AB
DATA ·initial+28(SB)/4, $0x5BE0CD19
GLOBL ·initial(SB), RODATA|NOPTR, $32

// LOAD4 loads a block of each of four inputs and turns 4 by 4 words: vector c has of each 128-bit lane the word c.
#define LOAD4(a, b, c, d, T0, T1, T2, T3) \
	VMOVDQU32   (R8), a; \
	VMOVDQU32   (R8)(R9*1), b; \
	VMOVDQU32   (R8)(R9*2), c; \
	VMOVDQU32   (R8)(R10*1), d; \
	LEAQ        (R8)(R9*4), R8; \
	VPUNPCKLDQ  b, a, T0; \
	VPUNPCKHDQ  b, a, T1; \
	VPUNPCKLDQ  d, c, T2; \
	VPUNPCKHDQ  d, c, T3; \
	VPUNPCKLQDQ T2, T0, a; \
	VPUNPCKHQDQ T2, T0, b; \
	VPUNPCKLQDQ T3, T1, c; \
	VPUNPCKHQDQ T3, T1, d

// LANES4 turns 4 by 4 lanes of 128 bits.
#define LANES4(a, b, c, d, T0, T1, T2, T3) \
	VSHUFI32X4 $0x44, b, a, T0; \
	VSHUFI32X4 $0xEE, b, a, T1; \
	VSHUFI32X4 $0x44, d, c, T2; \
	VSHUFI32X4 $0xEE, d, c, T3; \
	VSHUFI32X4 $0x88, T2, T0, a; \
	VSHUFI32X4 $0xDD, T2, T0, b; \
	VSHUFI32X4 $0x88, T3, T1, c; \
	VSHUFI32X4 $0xDD, T3, T1, d

// HALF is one half of four G functions, which do not depend on each other.
#define HALF(a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3, m0, m1, m2, m3, R1, R2) \
	VPADDD m0, a0, a0; VPADDD m1, a1, a1; VPADDD m2, a2, a2; VPADDD m3, a3, a3; \
	VPADDD b0, a0, a0; VPADDD b1, a1, a1; VPADDD b2, a2, a2; VPADDD b3, a3, a3; \
	VPXORD a0, d0, d0; VPXORD a1, d1, d1; VPXORD a2, d2, d2; VPXORD a3, d3, d3; \
	VPRORD R1, d0, d0; VPRORD R1, d1, d1; VPRORD R1, d2, d2; VPRORD R1, d3, d3; \
	VPADDD d0, c0, c0; VPADDD d1, c1, c1; VPADDD d2, c2, c2; VPADDD d3, c3, c3; \
	VPXORD c0, b0, b0; VPXORD c1, b1, b1; VPXORD c2, b2, b2; VPXORD c3, b3, b3; \
	VPRORD R2, b0, b0; VPRORD R2, b1, b1; VPRORD R2, b2, b2; VPRORD R2, b3, b3

#define ROUND(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, mA, mB, mC, mD, mE, mF) \
	HALF(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, m0, m2, m4, m6, $16, $12); \
	HALF(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, m1, m3, m5, m7, $8, $7); \
	HALF(Z0, Z1, Z2, Z3, Z5, Z6, Z7, Z4, Z10, Z11, Z8, Z9, Z15, Z12, Z13, Z14, m8, mA, mC, mE, $16, $12); \
	HALF(Z0, Z1, Z2, Z3, Z5, Z6, Z7, Z4, Z10, Z11, Z8, Z9, Z15, Z12, Z13, Z14, m9, mB, mD, mF, $8, $7)

// STORE4 writes 128-bit lanes of a vector to the outputs 0, 4, 8 and 12 after AT.
#define STORE4(V, AT) \
	VEXTRACTI32X4 $0, V, (AT)(DI); \
	VEXTRACTI32X4 $1, V, (AT+128)(DI); \
	VEXTRACTI32X4 $2, V, (AT+256)(DI); \
	VEXTRACTI32X4 $3, V, (AT+384)(DI)

// func compress16(out, in *byte, stride, blocks uint64, with *inputs)
TEXT ·compress16(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ stride+16(FP), R9
	MOVQ blocks+24(FP), CX
	MOVQ with+32(FP), DX
	LEAQ 64(DX), BX
	LEAQ (R9)(R9*2), R10
	LEAQ ·initial(SB), R11
	MOVL 0(BX), R12          // the flags of the first block
	VPBROADCASTD 0(R11), Z0
	VPBROADCASTD 4(R11), Z1
	VPBROADCASTD 8(R11), Z2
	VPBROADCASTD 12(R11), Z3
	VPBROADCASTD 16(R11), Z4
	VPBROADCASTD 20(R11), Z5
	VPBROADCASTD 24(R11), Z6
	VPBROADCASTD 28(R11), Z7

block:
	CMPQ CX, $1
	JNE  load
	ORL  8(BX), R12          // and those of the last

load:
	MOVQ SI, R8
	LOAD4(Z16, Z17, Z18, Z19, Z8, Z9, Z10, Z11)
	LOAD4(Z20, Z21, Z22, Z23, Z8, Z9, Z10, Z11)
	LOAD4(Z24, Z25, Z26, Z27, Z8, Z9, Z10, Z11)
	LOAD4(Z28, Z29, Z30, Z31, Z8, Z9, Z10, Z11)
	LANES4(Z16, Z20, Z24, Z28, Z8, Z9, Z10, Z11)
	LANES4(Z17, Z21, Z25, Z29, Z12, Z13, Z14, Z15)
	LANES4(Z18, Z22, Z26, Z30, Z8, Z9, Z10, Z11)
	LANES4(Z19, Z23, Z27, Z31, Z12, Z13, Z14, Z15)
	VPBROADCASTD 0(R11), Z8
	VPBROADCASTD 4(R11), Z9
	VPBROADCASTD 8(R11), Z10
	VPBROADCASTD 12(R11), Z11
	VMOVDQU32    (DX), Z12
	VPXORD       Z13, Z13, Z13 // the counter's upper half
	MOVL         $64, AX
	VPBROADCASTD AX, Z14
	VPBROADCASTD R12, Z15
	ROUND(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31)
	ROUND(Z18, Z22, Z19, Z26, Z23, Z16, Z20, Z29, Z17, Z27, Z28, Z21, Z25, Z30, Z31, Z24)
	ROUND(Z19, Z20, Z26, Z28, Z29, Z18, Z23, Z30, Z22, Z21, Z25, Z16, Z27, Z31, Z24, Z17)
	ROUND(Z26, Z23, Z28, Z25, Z30, Z19, Z29, Z31, Z20, Z16, Z27, Z18, Z21, Z24, Z17, Z22)
	ROUND(Z28, Z29, Z25, Z27, Z31, Z26, Z30, Z24, Z23, Z18, Z21, Z19, Z16, Z17, Z22, Z20)
	ROUND(Z25, Z30, Z27, Z21, Z24, Z28, Z31, Z17, Z29, Z19, Z16, Z26, Z18, Z22, Z20, Z23)
	ROUND(Z27, Z31, Z21, Z16, Z17, Z25, Z24, Z22, Z30, Z26, Z18, Z28, Z19, Z20, Z23, Z29)
	VPXORD Z8, Z0, Z0
	VPXORD Z9, Z1, Z1
	VPXORD Z10, Z2, Z2
	VPXORD Z11, Z3, Z3
	VPXORD Z12, Z4, Z4
	VPXORD Z13, Z5, Z5
	VPXORD Z14, Z6, Z6
	VPXORD Z15, Z7, Z7
	MOVL 4(BX), R12
	ADDQ $64, SI
	DECQ CX
	JNZ  block

	// The words of each output side by side.
	VPUNPCKLDQ Z1, Z0, Z8
	VPUNPCKHDQ Z1, Z0, Z9
	VPUNPCKLDQ Z3, Z2, Z10
	VPUNPCKHDQ Z3, Z2, Z11
	VPUNPCKLQDQ Z10, Z8, Z0
	VPUNPCKHQDQ Z10, Z8, Z1
	VPUNPCKLQDQ Z11, Z9, Z2
	VPUNPCKHQDQ Z11, Z9, Z3
	VPUNPCKLDQ Z5, Z4, Z12
	VPUNPCKHDQ Z5, Z4, Z13
	VPUNPCKLDQ Z7, Z6, Z14
	VPUNPCKHDQ Z7, Z6, Z15
	VPUNPCKLQDQ Z14, Z12, Z4
	VPUNPCKHQDQ Z14, Z12, Z5
	VPUNPCKLQDQ Z15, Z13, Z6
	VPUNPCKHQDQ Z15, Z13, Z7
	STORE4(Z0, 0)
	STORE4(Z1, 32)
	STORE4(Z2, 64)
	STORE4(Z3, 96)
	STORE4(Z4, 16)
	STORE4(Z5, 48)
	STORE4(Z6, 80)
	STORE4(Z7, 112)
	VZEROUPPER
	RET
