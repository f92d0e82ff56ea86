#include "md2.h"

#include <string.h>

#define BLOCK  16
#define ROUNDS 18

/* The permutation of 0..255 from RFC 1319, derived from the digits of pi. */
static const uint8_t permutation[256] = {
	41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167,
	5,   243, 192, 199, 115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,
	253, 212, 224, 22,  103, 66,  111, 24,  138, 23,  229, 18,  190, 78,  196, 214, 218, 158,
	222, 73,  160, 251, 245, 142, 187, 47,  238, 122, 169, 104, 121, 145, 21,  178, 7,   63,
	148, 194, 16,  137, 11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,  53,  62,
	204, 231, 191, 247, 151, 3,   255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,
	172, 86,  170, 198, 79,  184, 56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116,
	4,   241, 69,  157, 112, 89,  100, 113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,
	27,  96,  37,  173, 174, 176, 185, 246, 28,  70,  97,  105, 52,  64,  126, 15,  85,  71,
	163, 35,  221, 81,  175, 58,  195, 92,  249, 206, 186, 197, 234, 38,  44,  83,  13,  110,
	133, 40,  132, 9,   211, 223, 205, 244, 65,  129, 77,  82,  106, 220, 55,  200, 108, 193,
	171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120, 136, 149, 139, 227, 99,  232, 109,
	233, 203, 213, 254, 59,  0,   29,  57,  242, 239, 183, 14,  102, 88,  208, 228, 166, 119,
	114, 248, 235, 117, 75,  10,  49,  68,  80,  180, 143, 237, 31,  26,  219, 153, 141, 51,
	159, 17,  131, 20,
};

struct md2 {
	uint8_t state[3 * BLOCK];
	uint8_t checksum[BLOCK];
	uint8_t block[BLOCK];
	size_t used;
};

static void mix(struct md2 *m, const uint8_t block[BLOCK])
{
	for (size_t i = 0; i < BLOCK; i++) {
		m->state[BLOCK + i] = block[i];
		m->state[2 * BLOCK + i] = m->state[i] ^ block[i];
	}
	uint8_t last = 0;
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < sizeof m->state; i++)
			last = m->state[i] ^= permutation[last];
		last = (uint8_t)(last + round);
	}
}

static void absorb_block(struct md2 *m)
{
	mix(m, m->block);
	uint8_t last = m->checksum[BLOCK - 1];
	for (size_t i = 0; i < BLOCK; i++)
		last = m->checksum[i] ^= permutation[m->block[i] ^ last];
	m->used = 0;
}

static void absorb(struct md2 *m, const uint8_t *message, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		m->block[m->used++] = message[i];
		if (m->used == BLOCK)
			absorb_block(m);
	}
}

static void finish(struct md2 *m, uint8_t digest[PHOS_MD2_BYTES])
{
	size_t padding = BLOCK - m->used;
	memset(m->block + m->used, (int)padding, padding);
	absorb_block(m);
	mix(m, m->checksum);
	memcpy(digest, m->state, PHOS_MD2_BYTES);
}

void phos_md2(const uint8_t *message, size_t bytes, uint8_t digest[PHOS_MD2_BYTES])
{
	struct md2 m = {0};
	absorb(&m, message, bytes);
	finish(&m, digest);
}

void phos_hmac_md2(const uint8_t *key, size_t key_bytes, const uint8_t *message, size_t bytes,
		   uint8_t digest[PHOS_MD2_BYTES])
{
	uint8_t inner[BLOCK], outer[BLOCK];
	memset(inner, 0x36, sizeof inner);
	memset(outer, 0x5c, sizeof outer);
	for (size_t i = 0; i < key_bytes && i < BLOCK; i++) {
		inner[i] ^= key[i];
		outer[i] ^= key[i];
	}
	struct md2 m = {0};
	absorb(&m, inner, sizeof inner);
	absorb(&m, message, bytes);
	finish(&m, digest);
	m = (struct md2){0};
	absorb(&m, outer, sizeof outer);
	absorb(&m, digest, PHOS_MD2_BYTES);
	finish(&m, digest);
}
