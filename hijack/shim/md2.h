/* MD2 (RFC 1319) and HMAC (RFC 2104) over it: the check of a private table of the driver uses them.
 * Not secure. */
#ifndef PHOS_MD2_H
#define PHOS_MD2_H

#include <stddef.h>
#include <stdint.h>

#define PHOS_MD2_BYTES 16

void phos_md2(const uint8_t *message, size_t bytes, uint8_t digest[PHOS_MD2_BYTES]);

/* The key must not be longer than a block, 16 bytes. */
void phos_hmac_md2(const uint8_t *key, size_t key_bytes, const uint8_t *message, size_t bytes,
		   uint8_t digest[PHOS_MD2_BYTES]);

#endif
