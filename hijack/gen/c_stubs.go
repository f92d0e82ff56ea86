package main

import (
	"fmt"
	"strings"
)

// cStubs writes the senders of all frames, the exported functions that are nothing but a sender,
// the aliases and the twins.
func cStubs(s *spec) ([]byte, error) {
	var b strings.Builder
	b.WriteString(
		cBanner + "/* Senders, aliases and per-thread twins. */\n#ifndef _POSIX_C_SOURCE\n#define _POSIX_C_SOURCE 200809L\n#endif\n#include \"post.h\"\n#include \"zz_calls.h\"\n#include \"zz_layout.h\"\n\n__thread CUstream phos_default_stream __attribute__((tls_model(\"initial-exec\")));\n",
	)
	for _, c := range s.framedCalls() {
		cSender(&b, s, c)
	}
	for _, c := range s.calls {
		if c.class == alias {
			cAlias(&b, c)
		}
	}
	for _, c := range s.calls {
		if c.twin != "" && c.implemented() {
			cTwin(&b, c)
		}
	}
	return []byte(b.String()), nil
}

// returnsMore says whether a call has results besides its code. An earlier call's error must not
// take their place: a caller that gets an error has no handle, and could never release the object.
func (c *call) returnsMore() bool {
	scalars, arrays := c.returned()
	return len(scalars)+len(arrays) > 0
}

// cSender writes one sender: check, reserve, fill in, post or wait, take the reply apart.
func cSender(b *strings.Builder, s *spec, c *call) {
	fmt.Fprintf(b, "\nCUresult %s(%s)\n{\n\tstruct phos_call phos_c;\n", c.sender(), c.cParams())
	scalars, arrays := c.sent()
	cChecks(b, s, c, arrays)
	flags := []string{}
	if c.class != async {
		flags = append(flags, "PHOS_WAIT")
	}
	if c.class == wait && !c.returnsMore() {
		flags = append(flags, "PHOS_BLOCKS")
	}
	if c.internal {
		flags = append(flags, "PHOS_INTERNAL")
	}
	if !c.free {
		flags = append(flags, "PHOS_CONTEXT")
	}
	if len(flags) == 0 {
		flags = []string{"0"}
	}
	bytes := fmt.Sprintf("PHOS_WORDS(%d)", len(scalars))
	for _, p := range arrays {
		bytes += fmt.Sprintf(" + PHOS_ARRAY(%s)", c.cBytes(s, p))
	}
	for _, p := range arrays {
		fmt.Fprintf(b, "\tif (%s != NULL)\n\t\tphos_touch(%[1]s, %s);\n", p.name, c.cBytes(s, p))
	}
	fmt.Fprintf(
		b,
		"\tif (!phos_begin(&phos_c, %d, %s, %s))\n\t\treturn phos_c.result;\n",
		c.number,
		strings.Join(flags, " | "),
		bytes,
	)
	for _, p := range scalars {
		fmt.Fprintf(b, "\tphos_put_u64(&phos_c, %s);\n", s.cWord(p))
	}
	for _, p := range arrays {
		fmt.Fprintf(b, "\tphos_put_bytes(&phos_c, %s, %s);\n", p.name, c.cBytes(s, p))
	}
	if c.class == async {
		b.WriteString("\treturn phos_post(&phos_c);\n}\n")
		return
	}
	cReply(b, s, c)
}

// cChecks refuses NULL where something must be, and what cannot fit a frame.
func cChecks(b *strings.Builder, s *spec, c *call, arrays []param) {
	for _, p := range c.params {
		if p.dir == out && !p.isArray() {
			fmt.Fprintf(b, "\tif (%s == NULL)\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n", p.name)
		}
	}
	for _, p := range arrays {
		if p.isString() {
			fmt.Fprintf(
				b,
				"\tsize_t %s_length = %s == NULL ? 0 : strnlen(%s, PHOS_STRING_MAX + 1);\n",
				p.name,
				p.name,
				p.name,
			)
			fmt.Fprintf(
				b,
				"\tif (%s == NULL || %s_length > PHOS_STRING_MAX)\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n",
				p.name,
				p.name,
			)
			continue
		}
		fmt.Fprintf(
			b,
			"\tif (%s > PHOS_INLINE_MAX / %d || (%s == NULL && %s > 0))\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n",
			p.count,
			s.elementBytes(p),
			p.name,
			p.count,
		)
	}
}

// cBytes is the size of an inline array.
func (c *call) cBytes(s *spec, p param) string {
	if p.isString() {
		return p.name + "_length"
	}
	if n := s.elementBytes(p); n > 1 {
		return fmt.Sprintf("%d * %s", n, p.count)
	}
	return p.count
}

// elementBytes is the size of an array's element on the wire.
func (s *spec) elementBytes(p param) int {
	switch s.wire[p.ctype] {
	case "handle", "u64":
		return 8
	case "u32", "i32":
		return 4
	}
	return 1
}

// cWord widens a scalar to 8 bytes.
func (s *spec) cWord(p param) string {
	switch s.wire[p.ctype] {
	case "pointer":
		return "(uint64_t)(uintptr_t)" + p.name
	case "i32":
		return "(uint64_t)(int64_t)" + p.name
	}
	return p.name
}

// cReply writes the end of a sender: the wait for the reply, and its values stored for the caller.
func cReply(b *strings.Builder, s *spec, c *call) {
	scalars, arrays := c.returned()
	if len(scalars)+len(arrays) == 0 {
		b.WriteString("\treturn phos_wait(&phos_c);\n}\n")
		return
	}
	b.WriteString("\tCUresult phos_r = phos_wait(&phos_c);\n")
	if c.exported() {
		b.WriteString("\tif (phos_r != CUDA_SUCCESS)\n\t\treturn phos_r;\n")
	}
	for _, p := range scalars {
		fmt.Fprintf(b, "\tuint64_t %s_word = phos_take_u64(&phos_c);\n", p.name)
		store := s.cStore(p)
		if p.dir == outOptional {
			fmt.Fprintf(b, "\tif (%s != NULL)\n\t\t%s\n", p.name, store)
		} else {
			fmt.Fprintf(b, "\t%s\n", store)
		}
	}
	for _, p := range arrays {
		fmt.Fprintf(
			b,
			"\tif (%s != NULL && %s_size > 0)\n\t\t%s[phos_take_bytes(&phos_c, %s, %s_size - 1)] = 0;\n",
			p.name,
			p.name,
			p.name,
			p.name,
			p.name,
		)
	}
	b.WriteString("\treturn phos_r;\n}\n")
}

// cStore returns the C statement that stores a word of the reply through an out pointer.
func (s *spec) cStore(p param) string {
	switch s.wire[p.ctype] {
	case "f32":
		return fmt.Sprintf("memcpy(%s, &%s_word, sizeof *%s);", p.name, p.name, p.name)
	case "pointer":
		return fmt.Sprintf("*%s = (%s)(uintptr_t)%s_word;", p.name, p.ctype, p.name)
	}
	return fmt.Sprintf("*%s = (%s)%s_word;", p.name, p.ctype, p.name)
}

// cAlias writes an entry point that calls another one.
func cAlias(b *strings.Builder, c *call) {
	args := c.args
	if args == "" {
		args = c.cArgs()
	}
	fmt.Fprintf(b, "\nCUresult %s(%s)\n{\n", c.name, c.cParams())
	for _, p := range c.params {
		if !mentions(args, p.name) {
			fmt.Fprintf(b, "\t(void)%s;\n", p.name)
		}
	}
	fmt.Fprintf(b, "\treturn %s(%s);\n}\n", c.target, args)
}

// mentions reports whether a C expression names an identifier.
func mentions(expression, name string) bool {
	for _, word := range strings.FieldsFunc(expression, func(r rune) bool { return strings.ContainsRune(" ,()&*", r) }) {
		if word == name {
			return true
		}
	}
	return false
}

// cTwin writes the variant whose stream 0 is the calling thread's own.
func cTwin(b *strings.Builder, c *call) {
	fmt.Fprintf(b, "\nCUresult %s_%s(%s)\n{\n", c.name, c.twin, c.cParams())
	args, stream := c.cArgs(), ""
	for _, p := range c.params {
		if p.ctype == "CUstream" && p.dir == in {
			stream = p.name
		}
	}
	if stream != "" {
		args = replaceWord(args, stream, fmt.Sprintf("%s == 0 ? 2 : %s", stream, stream))
		fmt.Fprintf(b, "\treturn %s(%s);\n}\n", c.name, args)
		return
	}
	fmt.Fprintf(
		b,
		"\tCUstream saved = phos_default_stream;\n\tphos_default_stream = 2;\n\tCUresult result = %s(%s);\n\tphos_default_stream = saved;\n\treturn result;\n}\n",
		c.name,
		args,
	)
}

// replaceWord replaces elements of a comma-separated list.
func replaceWord(list, word, with string) string {
	parts := strings.Split(list, ", ")
	for i, p := range parts {
		if p == word {
			parts[i] = with
		}
	}
	return strings.Join(parts, ", ")
}

// cRefuse writes the exported functions that are not built. They take no parameters: in the C
// calling convention the caller cleans up, so whatever was passed is ignored.
func cRefuse(s *spec) ([]byte, error) {
	var b strings.Builder
	b.WriteString(
		cBanner + "/* Entry points that are not built: each says so once. */\n#include \"post.h\"\n\n#define REFUSE(name) \\\n\t__attribute__((visibility(\"default\"))) CUresult name(void); \\\n\tCUresult name(void) \\\n\t{ \\\n\t\treturn phos_refuse(#name); \\\n\t}\n\n",
	)
	for _, c := range s.calls {
		if c.implemented() {
			continue
		}
		for _, name := range c.symbols() {
			fmt.Fprintf(&b, "REFUSE(%s)\n", name)
		}
	}
	return []byte(b.String()), nil
}
