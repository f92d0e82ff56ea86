/* Kernels, each with the same function for the processor. */
#pragma once
#include "order.h"

/* Every kernel gets x, y, n words and a number. */
#define KERNEL(name, body)                                                                       \
	".visible .entry " name "(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 a)\n" \
	"{\n"                                                                                    \
	" .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %d<6>;\n"                                   \
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"                   \
	" mad.lo.s32 %r1, %r1, %r2, %r3; ld.param.u32 %r4, [n]; ld.param.u32 %r5, [a];\n"        \
	" ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; mul.wide.u32 %d3, %r1, 4;\n"             \
	" add.s64 %d1, %d1, %d3; add.s64 %d4, %d2, %d3;\n"                                       \
	" setp.ge.u32 %p, %r1, %r4; @%p bra DONE;\n" body "DONE: ret;\n}\n"

static const char ptx_head[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			       ".visible .global .align 16 .u32 table[64] = {1, 2, 3, 4, 5};\n"
			       ".visible .const .align 4 .u32 number = ";

static const char ptx_kernels[] = ";\n"
	/* x[i] = x[i] * number + a */
	KERNEL("scale", " ld.global.u32 %r6, [%d1]; ld.const.u32 %r7, [number];\n"
			" mad.lo.u32 %r6, %r6, %r7, %r5; st.global.u32 [%d1], %r6;\n")
	/* x[i] = x[i] * a + y[i] */
	KERNEL("mix", " ld.global.u32 %r6, [%d1]; ld.global.u32 %r7, [%d4];\n"
		      " mad.lo.u32 %r6, %r6, %r5, %r7; st.global.u32 [%d1], %r6;\n")
	/* x[0] += y[i], by atomic operations */
	KERNEL("sum", " ld.param.u64 %d1, [x]; ld.global.u32 %r6, [%d4];\n"
		      " red.global.add.u32 [%d1], %r6;\n")
	/* x[i] += table[i % 64] */
	KERNEL("look", " and.b32 %r6, %r1, 63; mul.wide.u32 %d3, %r6, 4; mov.u64 %d5, table;\n"
		       " add.s64 %d5, %d5, %d3; ld.global.u32 %r6, [%d5];\n"
		       " ld.global.u32 %r7, [%d1]; add.u32 %r7, %r7, %r6;\n"
		       " st.global.u32 [%d1], %r7;\n")
	/* x[i] = x[i] * number + 1, a times */
	KERNEL("slow", " ld.global.u32 %r6, [%d1]; ld.const.u32 %r7, [number];\n"
		       "AGAIN: mad.lo.u32 %r6, %r6, %r7, 1; sub.u32 %r5, %r5, 1;\n"
		       " setp.ne.u32 %p, %r5, 0; @%p bra AGAIN; st.global.u32 [%d1], %r6;\n")
	/* the words of each block in reverse order */
	".visible .entry turn(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 a)\n"
	"{\n"
	" .reg .b32 %r<6>; .reg .b64 %d<4>; .shared .align 4 .b8 room[512];\n"
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r1, %r1, 128, %r2;\n"
	" ld.param.u64 %d1, [x]; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;\n"
	" mov.u32 %r3, room; mad.lo.u32 %r4, %r2, 4, %r3; ld.global.u32 %r5, [%d1];\n"
	" st.shared.u32 [%r4], %r5; bar.sync 0;\n"
	" sub.u32 %r2, 127, %r2; mad.lo.u32 %r4, %r2, 4, %r3; ld.shared.u32 %r5, [%r4];\n"
	" st.global.u32 [%d1], %r5; ret;\n"
	"}\n";

enum kernel { SCALE, MIX, SUM, LOOK, SLOW, TURN, KERNELS };
static const char *const kernel_names[KERNELS] = {"scale", "mix", "sum", "look", "slow", "turn"};

static bool needs_source(enum kernel kernel)
{
	return kernel == MIX || kernel == SUM;
}

/* The effect of a kernel on words of two buffers. */
static void compute(const struct code *code, enum kernel kernel, uint32_t *x, const uint32_t *y,
		    const uint32_t shape[2])
{
	uint32_t n = shape[0], a = shape[1];
	const uint32_t *table = (const uint32_t *)w.buffers[code->variable].want;
	for (uint32_t i = 0; i < n; i++)
		switch (kernel) {
		case SCALE:
			x[i] = x[i] * code->number + a;
			break;
		case MIX:
			x[i] = x[i] * a + y[i];
			break;
		case SUM:
			x[0] += y[i];
			break;
		case LOOK:
			x[i] += table[i % 64];
			break;
		case SLOW:
			for (uint32_t turn = 0; turn < a; turn++)
				x[i] = x[i] * code->number + 1;
			break;
		default:
			if (i % 128 < 64) {
				uint32_t other = i / 128 * 128 + 127 - i % 128, was = x[i];
				x[i] = x[other];
				x[other] = was;
			}
		}
}

static int free_buffer_slot(void)
{
	for (int i = 0; i < BUFFERS; i++)
		if (!w.buffers[i].used)
			return i;
	return -1;
}

static void load_code(int context)
{
	int slot = 0, variable = free_buffer_slot();
	while (slot < CODES && w.codes[slot].module)
		slot++;
	if (slot == CODES || variable < 0)
		return;
	blocking();
	struct code *code = &w.codes[slot];
	*code = (struct code){
		.context = context, .number = 2 * pick(100000) + 1, .variable = variable};
	trace("code %d in context %d: %u", slot, context, code->number);
	char text[sizeof ptx_head + sizeof ptx_kernels + 20];
	snprintf(text, sizeof text, "%s%u%s", ptx_head, code->number, ptx_kernels);
	enter(context);
	if (chance(2))
		CU(cuModuleLoadData(&code->module, text));
	else
		CU(cuModuleLoadDataEx(&code->module, text, 0, NULL, NULL));
	for (int k = 0; k < KERNELS; k++)
		CU(cuModuleGetFunction(&code->kernels[k], code->module, kernel_names[k]));
	struct buffer *b = &w.buffers[variable];
	*b = (struct buffer){.used = true, .kind = VARIABLE, .context = context, .ats = 1};
	CU(cuModuleGetGlobal(&b->at[0], &b->bytes, code->module, "table"));
	CHECK(b->bytes == 256);
	b->want = calloc(1, b->bytes);
	for (uint32_t i = 0; i < 5; i++)
		((uint32_t *)b->want)[i] = i + 1;
	b->code = slot;
}

static void unload_code(int slot)
{
	struct code *code = &w.codes[slot];
	struct buffer *b = &w.buffers[code->variable];
	if (!code->module || code->held || b->held)
		return;
	settle(&code->run);
	settle(&b->written);
	settle(&b->read);
	blocking();
	trace("unload code %d", slot);
	enter(code->context);
	CU(cuModuleUnload(code->module));
	free(b->want);
	b->used = false;
	code->module = NULL;
}

static struct code *code_in(int context)
{
	for (int turn = 0; turn < 20; turn++) {
		struct code *code = &w.codes[pick(CODES)];
		if (code->module && code->context == context)
			return code;
	}
	return NULL;
}
