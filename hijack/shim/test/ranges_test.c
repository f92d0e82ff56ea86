/* The treap against a plain array: random ranges are added, looked up and removed in both. */
#include "../ranges.h"

#include "expect.h"

#define SLOTS 300
#define STEPS 60000

static struct {
	uint64_t base, bytes;
	uint32_t kind;
} model[SLOTS];

static int model_holding(uint64_t address)
{
	for (int i = 0; i < SLOTS; i++)
		if (model[i].bytes != 0 && address >= model[i].base &&
		    address - model[i].base < model[i].bytes)
			return i;
	return -1;
}

static bool model_overlaps(uint64_t base, uint64_t bytes)
{
	for (int i = 0; i < SLOTS; i++)
		if (model[i].bytes != 0 && model[i].base < base + bytes &&
		    base < model[i].base + model[i].bytes)
			return true;
	return false;
}

static void step(void)
{
	uint64_t base = (uint64_t)(rand() % 4000) * 16, bytes = (uint64_t)(rand() % 20 + 1) * 8;
	int i = rand() % SLOTS;
	if (model[i].bytes == 0) {
		struct phos_range range = {
			.base = base, .bytes = bytes, .kind = PHOS_RANGE_REGISTERED};
		bool room = !model_overlaps(base, bytes);
		EXPECT_EQUAL(phos_range_overlaps(base, bytes), !room);
		EXPECT_EQUAL(phos_range_add(&range), room);
		if (room) {
			model[i].base = base;
			model[i].bytes = bytes;
		}
	} else if (rand() % 3 == 0) {
		EXPECT(!phos_range_remove(model[i].base, PHOS_RANGE_HOST));
		EXPECT(!phos_range_remove(model[i].base + 4, PHOS_RANGE_REGISTERED));
		EXPECT(phos_range_remove(model[i].base, PHOS_RANGE_REGISTERED));
		model[i].bytes = 0;
	}
	struct phos_range found;
	uint64_t address = (uint64_t)(rand() % 64200);
	int want = model_holding(address);
	EXPECT_EQUAL(phos_range_find(address, &found), want >= 0);
	if (want >= 0) {
		EXPECT_EQUAL(found.base, model[want].base);
		EXPECT_EQUAL(found.bytes, model[want].bytes);
	}
}

static void test_contexts(void)
{
	struct phos_range range = {
		.base = 1 << 20, .bytes = 64, .context = 7, .kind = PHOS_RANGE_DEVICE};
	for (int i = 0; i < 100; i++) {
		range.base += 64;
		range.context = i % 2 == 0 ? 7 : 8;
		range.kind = i % 10 == 0 ? PHOS_RANGE_HOST : PHOS_RANGE_DEVICE;
		EXPECT(phos_range_add(&range));
	}
	phos_range_drop_context(7);
	int left = 0;
	for (uint64_t address = 1 << 20; address < (1 << 20) + 102 * 64; address += 64)
		left += phos_range_find(address, &range) ? 1 : 0;
	/* 50 of context 8, and the 10 of context 7 that are host memory. */
	EXPECT_EQUAL(left, 60);
	phos_range_drop_context(8);
}

static void test_eviction(void)
{
	struct phos_range found, variable = {.base = 4096, .bytes = 64, .kind = PHOS_RANGE_GLOBAL};
	EXPECT(phos_range_add(&variable));
	EXPECT(!phos_range_add(&variable));
	variable.base += 256;
	EXPECT(phos_range_add(&variable));
	struct phos_range memory = {.base = 4096 + 32, .bytes = 512, .kind = PHOS_RANGE_DEVICE};
	EXPECT(phos_range_add(&memory));
	EXPECT(!phos_range_find(4096, &found));
	EXPECT(phos_range_find(4096 + 256, &found) && found.bytes == 512);
	EXPECT(phos_range_remove(memory.base, PHOS_RANGE_DEVICE));
}

/* A module loaded at the addresses of an unloaded one: its variables stay when the other one's
 * context is destroyed. */
static void test_variables(void)
{
	struct phos_range found, first = {.base = 8192,
					  .bytes = 64,
					  .kind = PHOS_RANGE_GLOBAL,
					  .context = 7,
					  .module = 1,
					  .placed = true};
	struct phos_range second = first;
	second.base += 32;
	second.context = 8;
	second.module = 2;
	EXPECT(phos_range_add(&first));
	EXPECT(!phos_range_add(&first));
	EXPECT(phos_range_add(&second));
	first.base = second.base;
	first.module = 3;
	EXPECT(phos_range_add(&first));
	phos_range_drop_context(8);
	EXPECT(phos_range_placed(8192 + 32));
	first.context = 9; /* queried again in another context */
	EXPECT(!phos_range_add(&first));
	EXPECT(phos_range_find(8192 + 32, &found) && found.context == 7);
	struct phos_range memory = {.base = 16384, .bytes = 512, .kind = PHOS_RANGE_DEVICE};
	EXPECT(phos_range_add(&memory));
	first.base = 16384 + 64;
	EXPECT(!phos_range_add(&first));
	EXPECT(phos_range_remove(memory.base, PHOS_RANGE_DEVICE));
	phos_range_drop_context(7);
	EXPECT(!phos_range_placed(8192 + 32));
}

static void test_ends(void)
{
	struct phos_range found,
		range = {.base = UINT64_MAX - 63, .bytes = 64, .kind = PHOS_RANGE_DEVICE};
	EXPECT(phos_range_add(&range));
	EXPECT(phos_range_find(UINT64_MAX, &found));
	EXPECT(phos_range_overlaps(UINT64_MAX, 1));
	EXPECT(phos_range_set_sync_memops(UINT64_MAX, true));
	EXPECT(phos_range_find(UINT64_MAX - 63, &found) && found.sync_memops);
	EXPECT(phos_range_remove(UINT64_MAX - 63, PHOS_RANGE_DEVICE));
	EXPECT(!phos_range_find(UINT64_MAX, &found));
}

int main(void)
{
	srand(1);
	for (int i = 0; i < STEPS; i++)
		step();
	for (int i = 0; i < SLOTS; i++)
		if (model[i].bytes != 0)
			EXPECT(phos_range_remove(model[i].base, PHOS_RANGE_REGISTERED));
	test_contexts();
	test_eviction();
	test_variables();
	test_ends();
	return expect_result("ranges_test");
}
