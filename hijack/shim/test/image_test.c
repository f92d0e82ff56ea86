/* Lengths of images. Each is at the end of a heap block, so that the sanitizer detects a read past
 * its end. */
#include "../image.h"

#include "expect.h"

static void put32(unsigned char *at, uint32_t v)
{
	memcpy(at, &v, 4);
}

static void put64(unsigned char *at, uint64_t v)
{
	memcpy(at, &v, 8);
}

static void expect_image(const void *image, const void *begin, size_t bytes)
{
	const void *got = NULL;
	size_t got_bytes = 0;
	EXPECT(phos_image_find(image, &got, &got_bytes));
	EXPECT(got == begin);
	EXPECT_EQUAL(got_bytes, bytes);
}

static void test_text(void)
{
	const char *texts[] = {"x", "//", ".version 8.4\n.target sm_90\n"};
	for (size_t i = 0; i < 3; i++) {
		char *text = malloc(strlen(texts[i]) + 1);
		strcpy(text, texts[i]);
		expect_image(text, text, strlen(texts[i]));
		free(text);
	}
	const void *begin;
	size_t bytes;
	EXPECT(!phos_image_find("", &begin, &bytes));
	EXPECT(!phos_image_find(NULL, &begin, &bytes));
}

static void test_fatbin(void)
{
	unsigned char *fatbin = calloc(1, 16 + 40);
	put32(fatbin, 0xba55ed50u);
	fatbin[4] = 1;
	fatbin[6] = 16;
	put64(fatbin + 8, 40);
	expect_image(fatbin, fatbin, 56);
	unsigned char *wrapper = calloc(1, 24);
	put32(wrapper, 0x466243b1u);
	put32(wrapper + 4, 1);
	put64(wrapper + 8, (uintptr_t)fatbin);
	expect_image(wrapper, fatbin, 56);
	const void *begin;
	size_t bytes;
	const char *text = "not a fatbin";
	put64(wrapper + 8, (uintptr_t)text);
	EXPECT(!phos_image_find(wrapper, &begin, &bytes));
	put64(wrapper + 8, 0);
	EXPECT(!phos_image_find(wrapper, &begin, &bytes));
	free(wrapper);
	free(fatbin);
}

static void test_elf(void)
{
	/* 64 bytes of header, a section of 100 at 64, two section headers at 168. */
	size_t whole = 168 + 2 * 64;
	unsigned char *elf = calloc(1, whole);
	memcpy(elf,
	       "\x7f"
	       "ELF\2\1\1",
	       7);
	put64(elf + 40, 168);
	elf[54] = 56;
	elf[58] = 64;
	elf[60] = 2;
	put32(elf + 168 + 64 + 4, 1);
	put64(elf + 168 + 64 + 24, 64);
	put64(elf + 168 + 64 + 32, 100);
	expect_image(elf, elf, whole);
	/* A section after the table counts; one without content in the file does not. */
	put64(elf + 168 + 64 + 24, 168 + 128);
	expect_image(elf, elf, whole + 100);
	put32(elf + 168 + 64 + 4, 8);
	expect_image(elf, elf, whole);
	const void *begin;
	size_t bytes;
	elf[4] = 1;
	EXPECT(!phos_image_find(elf, &begin, &bytes));
	free(elf);
}

static void test_container(void)
{
	unsigned char *container = calloc(1, 16 + 8 + 8 + 8 + 16);
	memcpy(container, PHOS_LINK_MAGIC, 8);
	put32(container + 8, PHOS_LINK_VERSION);
	put32(container + 12, 2);
	put64(container + 16, 5);
	put64(container + 32, 16);
	expect_image(container, container, 56);
	const void *begin;
	size_t bytes;
	put32(container + 8, PHOS_LINK_VERSION + 1);
	EXPECT(!phos_image_find(container, &begin, &bytes));
	free(container);
}

/* A wrapper with a list: the linked fat binary and its parts are joined in one container. */
static void test_parts(void)
{
	unsigned char *fatbin = calloc(1, 16 + 5);
	put32(fatbin, 0xba55ed50u);
	fatbin[6] = 16;
	put64(fatbin + 8, 5);
	memset(fatbin + 16, 'x', 5);
	uint64_t *list = calloc(3, 8);
	list[0] = list[1] = (uintptr_t)fatbin;
	unsigned char *wrapper = calloc(1, 24);
	put32(wrapper, 0x466243b1u);
	put32(wrapper + 4, 1);
	put64(wrapper + 8, (uintptr_t)fatbin);
	put64(wrapper + 16, (uintptr_t)list);
	size_t bytes = 0;
	EXPECT(phos_image_join(NULL, &bytes) == NULL);
	EXPECT(phos_image_join(wrapper, &bytes) == NULL); /* version 1 has a file name there */
	put32(wrapper + 4, 2);
	unsigned char *joined = phos_image_join(wrapper, &bytes);
	EXPECT(joined != NULL);
	EXPECT_EQUAL(bytes, 16 + 3 * (8 + 24));
	EXPECT(joined[8] == 2 && joined[12] == 3 && joined[16] == 21);
	EXPECT(memcmp(joined + 24, fatbin, 21) == 0 && memcmp(joined + 24 + 64, fatbin, 21) == 0);
	free(joined);
	put64(wrapper + 16, 0);
	EXPECT(phos_image_join(wrapper, &bytes) == NULL);
	free(wrapper);
	free(list);
	free(fatbin);
}

int main(void)
{
	test_text();
	test_fatbin();
	test_elf();
	test_container();
	test_parts();
	return expect_result("image_test");
}
