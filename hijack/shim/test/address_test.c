/* The one line of pos.yaml that the shim reads, and its valid values. */
#include "../address.h"

#include "expect.h"

static void test_yaml(void)
{
	static const struct {
		const char *text, *value; /* NULL: not found */
	} cases[] = {
		{"", NULL},
		{"job_name: a\n", NULL},
		{"daemon_addr: /run/phos/other.sock\n", "/run/phos/other.sock"},
		{"daemon_addr: /run/x", "/run/x"},
		{"job_name: a\r\ndaemon_addr:   localhost  \r\nlog_path: b\r\n", "localhost"},
		{"daemon_addr: \"127.0.0.1:55555\" # here\n", "127.0.0.1:55555"},
		{"daemon_addr: 'a # b'\n", "a # b"},
		{"daemon_addr: a#b\n", "a#b"},
		{"daemon_addr: a #b\n", "a"},
		{"daemon_addr:\t[::1]:80\n", "[::1]:80"},
		{"\"daemon_addr\" : x\n", "x"},
		{"\xef\xbb\xbf"
		 "daemon_addr: x\n",
		 "x"},
		{"daemon_addr:\n", NULL},
		{"daemon_addr: # nothing\n", NULL},
		{"daemon_addr: \"unclosed\n", NULL},
		{"daemon_address: x\n", NULL},
		{"daemon_addr:x\n", NULL},
		{"  daemon_addr: nested\n", NULL},
		{"# daemon_addr: x\n", NULL},
		{"other: [\n:::\ndaemon_addr: y\n", "y"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char value[64] = "";
		/* An exact copy on the heap, so that the sanitizer detects a read past the end. */
		size_t bytes = strlen(cases[i].text);
		char *text = malloc(bytes + 1);
		memcpy(text, cases[i].text, bytes);
		bool found = phos_yaml_daemon_addr(text, bytes, value, sizeof value);
		EXPECT_EQUAL(found, cases[i].value != NULL);
		if (found && cases[i].value != NULL && strcmp(value, cases[i].value) != 0) {
			fprintf(stderr, "case %zu: \"%s\"\n", i, value);
			expect_failures++;
		}
		free(text);
	}
	char small[4];
	EXPECT(phos_yaml_daemon_addr("daemon_addr: abcd", 17, small, sizeof small));
	EXPECT(strncmp(small, "abcd", sizeof small - 1) == 0 && small[sizeof small - 1] == 0);
}

static void test_addresses(void)
{
	static const struct {
		const char *address, *path; /* NULL: refused */
	} cases[] = {
		{"/run/a.sock", "/run/a.sock"},
		{"./a.sock", "./a.sock"},
		{"unix:/run/b", "/run/b"},
		{"unix:///run/c", "/run/c"},
		{"localhost", "/local"},
		{"LOCALHOST:1234", "/local"},
		{"127.0.0.1", "/local"},
		{"127.1.2.3:99", "/local"},
		{"::1", "/local"},
		{"[::1]", "/local"},
		{"[::1]:55", "/local"},
		{"10.0.0.1", NULL},
		{"127.0.0.1.example.org", NULL},
		{"127.0.0.256", NULL},
		{"gpu-server:80", NULL},
		{"localhost.evil.org", NULL},
		{"[2001:db8::1]:80", NULL},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char path[64] = "";
		bool good = phos_socket_of_address(cases[i].address, "/local", path, sizeof path);
		if (good != (cases[i].path != NULL) || (good && strcmp(path, cases[i].path) != 0)) {
			fprintf(stderr, "%s: \"%s\"\n", cases[i].address, path);
			expect_failures++;
		}
	}
	char small[4];
	EXPECT(!phos_socket_of_address("/run/a", "/local", small, sizeof small));
}

int main(void)
{
	test_yaml();
	test_addresses();
	return expect_result("address_test");
}
