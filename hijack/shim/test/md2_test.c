/* The digests are from RFC 1319, appendix A.5; the HMAC is compared with its definition. */
#include "../md2.h"

#include "expect.h"

static void hex(const uint8_t digest[PHOS_MD2_BYTES], char text[33])
{
	for (size_t i = 0; i < PHOS_MD2_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void test_vectors(void)
{
	static const struct {
		const char *message, *digest;
	} cases[] = {
		{"", "8350e5a3e24c153df2275c9f80692773"},
		{"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"},
		{"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
		{"message digest", "ab4f496bfb2a530b219ff33031fe06b0"},
		{"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
		 "da33def2a42df13975352846c30338cd"},
		{"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
		 "d5976f79d83d3a0dc9806c3c66f3efd8"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint8_t digest[PHOS_MD2_BYTES];
		char text[33];
		phos_md2((const uint8_t *)cases[i].message, strlen(cases[i].message), digest);
		hex(digest, text);
		EXPECT(strcmp(text, cases[i].digest) == 0);
	}
}

static void test_hmac(void)
{
	const uint8_t key[] = "Jefe", message[] = "what do ya want for nothing?";
	uint8_t text[16 + sizeof message], digest[PHOS_MD2_BYTES], want[PHOS_MD2_BYTES];
	for (size_t i = 0; i < 16; i++)
		text[i] = (uint8_t)((i < 4 ? key[i] : 0) ^ 0x36);
	memcpy(text + 16, message, sizeof message - 1);
	phos_md2(text, 16 + sizeof message - 1, want);
	for (size_t i = 0; i < 16; i++)
		text[i] = (uint8_t)((i < 4 ? key[i] : 0) ^ 0x5c);
	memcpy(text + 16, want, sizeof want);
	phos_md2(text, 32, want);
	phos_hmac_md2(key, 4, message, sizeof message - 1, digest);
	EXPECT(memcmp(digest, want, sizeof want) == 0);
}

int main(void)
{
	test_vectors();
	test_hmac();
	return expect_result("md2_test");
}
