#include "image.h"

#include <stdlib.h>
#include <string.h>

#define WRAPPER_MAGIC  "\xb1\x43\x62\x46"
#define FATBIN_MAGIC   "\x50\xed\x55\xba"
#define SECTION_NOBITS 8
#define WRAPPER_PARTS  2 /* the version of wrappers with a list of further fat binaries */

/* Images may be unaligned: all reads copy. */
static uint16_t read16(const unsigned char *at)
{
	uint16_t v;
	memcpy(&v, at, sizeof v);
	return v;
}

static uint32_t read32(const unsigned char *at)
{
	uint32_t v;
	memcpy(&v, at, sizeof v);
	return v;
}

static uint64_t read64(const unsigned char *at)
{
	uint64_t v;
	memcpy(&v, at, sizeof v);
	return v;
}

static size_t fatbin_bytes(const unsigned char *fatbin)
{
	return read16(fatbin + 6) + read64(fatbin + 8);
}

static size_t greater(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* An ELF file ends with the last of its header tables and sections. */
static size_t elf_bytes(const unsigned char *elf)
{
	if (elf[4] != 2 || elf[5] != 1) /* 64 bits, little endian */
		return 0;
	uint64_t program_table = read64(elf + 32), section_table = read64(elf + 40);
	size_t program_entry = read16(elf + 54), programs = read16(elf + 56);
	size_t section_entry = read16(elf + 58), sections = read16(elf + 60);
	size_t end = greater(64, section_table + section_entry * sections);
	end = greater(end, program_table + program_entry * programs);
	for (size_t i = 0; section_entry >= 64 && i < sections; i++) {
		const unsigned char *section = elf + section_table + i * section_entry;
		if (read32(section + 4) != SECTION_NOBITS)
			end = greater(end, read64(section + 24) + read64(section + 32));
	}
	return end;
}

static size_t container_bytes(const unsigned char *container)
{
	if (read32(container + 8) != PHOS_LINK_VERSION)
		return 0;
	size_t bytes = PHOS_LINK_HEADER_BYTES;
	for (uint32_t left = read32(container + 12); left > 0; left--)
		bytes += 8 + ((read64(container + bytes) + 7) & ~(uint64_t)7);
	return bytes;
}

/* Compares byte by byte, because a text may be shorter than the magic number. */
static bool begins(const unsigned char *at, const char *magic, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != (unsigned char)magic[i])
			return false;
	return true;
}

bool phos_image_find(const void *image, const void **begin, size_t *bytes)
{
	const unsigned char *at = image;
	if (at == NULL)
		return false;
	if (begins(at, WRAPPER_MAGIC, 4)) {
		at = (const unsigned char *)(uintptr_t)read64(at + 8);
		if (at == NULL || !begins(at, FATBIN_MAGIC, 4))
			return false;
	}
	if (begins(at, FATBIN_MAGIC, 4))
		*bytes = fatbin_bytes(at);
	else if (begins(at,
			"\x7f"
			"ELF",
			4))
		*bytes = elf_bytes(at);
	else if (begins(at, PHOS_LINK_MAGIC, 8))
		*bytes = container_bytes(at);
	else
		*bytes = strlen((const char *)at);
	*begin = at;
	return *bytes > 0;
}

static bool is_fatbin(const unsigned char *at)
{
	return at != NULL && begins(at, FATBIN_MAGIC, 4);
}

static const unsigned char *pointer_at(const unsigned char *at)
{
	return (const unsigned char *)(uintptr_t)read64(at);
}

/* Appends a part to a container, or only counts its bytes if container is NULL. */
static size_t put_part(unsigned char *container, size_t at, const unsigned char *part)
{
	uint64_t bytes = is_fatbin(part) ? fatbin_bytes(part) : 0;
	if (container != NULL) {
		memcpy(container + at, &bytes, 8);
		if (bytes > 0)
			memcpy(container + at + 8, part, bytes);
	}
	return at + 8 + ((bytes + 7) & ~(uint64_t)7);
}

static size_t put_parts(unsigned char *container, const unsigned char *wrapper)
{
	const unsigned char *list = pointer_at(wrapper + 16);
	uint32_t count = 1, version = PHOS_LINK_FATBINS;
	size_t at = put_part(container, PHOS_LINK_HEADER_BYTES, pointer_at(wrapper + 8));
	for (; is_fatbin(pointer_at(list)); list += 8, count++)
		at = put_part(container, at, pointer_at(list));
	if (container != NULL) {
		memcpy(container, PHOS_LINK_MAGIC, 8);
		memcpy(container + 8, &version, 4);
		memcpy(container + 12, &count, 4);
	}
	return at;
}

void *phos_image_join(const void *image, size_t *bytes)
{
	const unsigned char *wrapper = image;
	if (wrapper == NULL || !begins(wrapper, WRAPPER_MAGIC, 4) ||
	    read32(wrapper + 4) != WRAPPER_PARTS || pointer_at(wrapper + 16) == NULL)
		return NULL;
	*bytes = put_parts(NULL, wrapper);
	unsigned char *container = calloc(1, *bytes);
	if (container != NULL)
		put_parts(container, wrapper);
	return container;
}
