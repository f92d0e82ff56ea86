package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// runtimeC stands in for the call runtime of the shim: it writes each payload to standard output
// and hands out a reply.
const runtimeC = `
#include <stdio.h>
#include <stdlib.h>
#include "zz_stubs.c"
static unsigned char frame[1 << 16], reply[1024];
static size_t expected;
static uint16_t number;
bool phos_begin(struct phos_call *c, uint16_t op, unsigned flags, size_t bytes) {
	(void)flags; number = op; expected = bytes; c->at = frame; c->end = frame + bytes; return true;
}
static void flush(struct phos_call *c) {
	uint32_t bytes = (uint32_t)(c->at - frame);
	if (bytes != expected) { fprintf(stderr, "call %d: %u bytes put, %zu announced\n", number, bytes, expected); exit(1); }
	fwrite(&number, 2, 1, stdout); fwrite(&bytes, 4, 1, stdout); fwrite(frame, 1, bytes, stdout);
}
CUresult phos_post(struct phos_call *c) { flush(c); return 0; }
CUresult phos_wait(struct phos_call *c) { flush(c); c->at = reply; c->end = reply + sizeof reply; return 0; }
size_t phos_take_bytes(struct phos_call *c, void *dst, size_t cap) {
	size_t n = phos_take_u64(c); if (n > cap) n = cap; memcpy(dst, c->at, n); return n;
}
static void word(int at, uint64_t v) { memcpy(reply + 8 * at, &v, 8); }
static void check(const char *call, const char *name, uint64_t got, uint64_t want) {
	if (got != want) { fprintf(stderr, "%s: %s came back as %llx, want %llx\n", call, name, (unsigned long long)got, (unsigned long long)want); exit(1); }
}
/* The hand-written functions, which aliases and twins refer to, are left out here. */
static const unsigned char some_bytes[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
`

// TestTwins holds the C half of every frame against the Go half: a C program calls each sender with
// values of its own, and what it sends must decode to exactly these; what comes back must reach the
// program's pointers.
func TestTwins(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	s := loadSpec(t)
	var b strings.Builder
	b.WriteString(runtimeC)
	for _, c := range s.calls {
		if c.exported() && (c.class == local || c.custom) {
			fmt.Fprintf(&b, "CUresult %s(%s) { return 0; }\n", c.name, c.cParams())
		}
	}
	b.WriteString("int main(void) {\n")
	for _, c := range s.framedCalls() {
		twinCall(&b, s, c)
	}
	b.WriteString("\treturn 0;\n}\n")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "twin.c"), filepath.Join(dir, "twin")
	if err := os.WriteFile(source, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(
		gcc,
		"-std=gnu11",
		"-Wall",
		"-Wextra",
		"-Wshadow",
		"-Werror",
		"-Wno-unused-parameter",
		"-I",
		filepath.Join(root, "hijack/shim"),
		"-o",
		program,
		source,
	)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	run := exec.Command(program)
	run.Stderr = os.Stderr
	frames, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.framedCalls() {
		number, size := binary.LittleEndian.Uint16(frames), binary.LittleEndian.Uint32(frames[2:])
		if int(number) != c.number {
			t.Fatalf("call %d, want %d", number, c.number)
		}
		checkTwin(t, s, c, frames[6:6+size])
		frames = frames[6+size:]
	}
}

// twinCall writes the C that makes one call and looks at what comes back.
func twinCall(b *strings.Builder, s *spec, c *call) {
	b.WriteString("\t{\n")
	var args, checks []string
	sent, _ := c.sent()
	back, arrays := c.returned()
	for i, p := range back {
		fmt.Fprintf(b, "\t\tword(%d, %d);\n\t\t%s %s = 0;\n", i, 64+i, p.ctype, p.name)
		value := fmt.Sprintf("(uint64_t)%s", p.name)
		switch s.wire[p.ctype] {
		case "f32":
			fmt.Fprintf(b, "\t\tuint32_t %s_bits;\n", p.name)
			checks = append(checks, fmt.Sprintf("\t\tmemcpy(&%s_bits, &%s, 4);\n", p.name, p.name))
			value = p.name + "_bits"
		case "pointer":
			value = fmt.Sprintf("(uint64_t)(uintptr_t)%s", p.name)
		}
		checks = append(checks, fmt.Sprintf("\t\tcheck(%q, %q, %s, %d);\n", c.name, p.name, value, 64+i))
	}
	for _, p := range arrays {
		fmt.Fprintf(
			b,
			"\t\tchar %s[8];\n\t\tword(%d, 3);\n\t\tmemcpy(reply + %d, \"log\", 4);\n",
			p.name,
			len(back),
			8*len(back)+8,
		)
		checks = append(
			checks,
			fmt.Sprintf("\t\tcheck(%q, %q, (uint64_t)strcmp(%s, \"log\"), 0);\n", c.name, p.name, p.name),
		)
	}
	for _, p := range c.params {
		switch {
		case p.isString():
			args = append(args, `"name"`)
		case p.dir == in && p.isArray():
			args = append(args, "(const void *)some_bytes")
		case c.isCount(p):
			args = append(args, "3")
		case p.dir != in && p.isArray():
			args = append(args, p.name, "sizeof "+p.name)
		case p.dir != in:
			args = append(args, "&"+p.name)
		default:
			args = append(args, fmt.Sprintf("(%s)%d", p.ctype, twinValue(sent, p)))
		}
	}
	fmt.Fprintf(
		b,
		"\t\tcheck(%q, \"result\", (uint64_t)%s(%s), 0);\n%s\t}\n",
		c.name,
		c.sender(),
		strings.Join(args, ", "),
		strings.Join(checks, ""),
	)
}

// twinValue is what a scalar parameter is given: its place among them.
func twinValue(scalars []param, p param) int {
	for i, q := range scalars {
		if q.name == p.name {
			return 3 + i
		}
	}
	return 0
}

func checkTwin(t *testing.T, s *spec, c *call, payload []byte) {
	t.Helper()
	m := wire.NewMessage(abi.Call(c.number))
	if m == nil {
		if len(payload) > 0 {
			t.Errorf("%s: %d bytes where nothing is sent", c.name, len(payload))
		}
		return
	}
	if err := m.Decode(payload); err != nil {
		t.Errorf("%s: %v", c.name, err)
		return
	}
	v := reflect.ValueOf(m).Elem()
	scalars, arrays := c.sent()
	for _, p := range scalars {
		if got := fmt.Sprint(v.FieldByName(p.goField()).Convert(reflect.TypeFor[int64]())); got != fmt.Sprint(
			twinValue(scalars, p),
		) {
			t.Errorf("%s: %s arrives as %s, want %d", c.name, p.name, got, twinValue(scalars, p))
		}
	}
	for _, p := range arrays {
		got := v.FieldByName(p.goField())
		if p.isString() {
			if got.String() != "name" {
				t.Errorf("%s: %s arrives as %q", c.name, p.name, got)
			}
			continue
		}
		want := 3 * s.elementBytes(p)
		if data := got.Bytes(); len(data) != want || data[0] != 1 || data[want-1] != byte(want) {
			t.Errorf("%s: %s arrives as %v", c.name, p.name, data)
		}
	}
}
