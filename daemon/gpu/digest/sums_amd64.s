#include "textflag.h"

// Y0 to Y3 are the sums of two columns, a lane each; Y4 to Y7 those of the next two. Y8, Y9 hold their words as they are: the
// multiplication takes the even ones. Y10, Y11 hold the odd ones. Four key words broadcast to both columns have at their
// even places what the even words are multiplied with in a lane, and the odd ones in the lane before.

#define EVEN(lane, next) \
	VPMULUDQ Y8, Y12, Y13; \
	VPMULUDQ Y9, Y12, Y14; \
	VPADDQ   Y13, lane, lane; \
	VPADDQ   Y14, next, next

#define ODD(lane, next) \
	VPMULUDQ Y10, Y12, Y13; \
	VPMULUDQ Y11, Y12, Y14; \
	VPADDQ   Y13, lane, lane; \
	VPADDQ   Y14, next, next

// func addLines(pairs *[lanes][4]uint64, columns *byte, rows int, key *uint32)
TEXT ·addLines(SB), NOSPLIT, $0-32
	MOVQ    pairs+0(FP), DI
	MOVQ    columns+8(FP), SI
	MOVQ    rows+16(FP), CX
	MOVQ    key+24(FP), DX
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VMOVDQU 128(DI), Y4
	VMOVDQU 160(DI), Y5
	VMOVDQU 192(DI), Y6
	VMOVDQU 224(DI), Y7

row:
	PREFETCHT0     8192(SI) // the same line of the next burst
	VMOVDQU        (SI), Y8
	VMOVDQU        32(SI), Y9
	VPSRLQ         $32, Y8, Y10
	VPSRLQ         $32, Y9, Y11
	VBROADCASTI128 (DX), Y12
	EVEN(Y0, Y4)
	VBROADCASTI128 4(DX), Y12
	ODD(Y0, Y4)
	EVEN(Y1, Y5)
	VBROADCASTI128 8(DX), Y12
	ODD(Y1, Y5)
	EVEN(Y2, Y6)
	VBROADCASTI128 12(DX), Y12
	ODD(Y2, Y6)
	EVEN(Y3, Y7)
	VBROADCASTI128 16(DX), Y12
	ODD(Y3, Y7)
	ADDQ           $512, SI
	ADDQ           $16, DX
	DECQ           CX
	JNZ            row

	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	VMOVDQU Y4, 128(DI)
	VMOVDQU Y5, 160(DI)
	VMOVDQU Y6, 192(DI)
	VMOVDQU Y7, 224(DI)
	VZEROUPPER
	RET
