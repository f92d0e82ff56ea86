package main

import (
	"fmt"
	"go/format"
	"strings"
)

// goTypes are the Go types of scalars by the way they travel.
var goTypes = map[string]string{
	"i32": "int32", "u32": "uint32", "u64": "uint64", "f32": "float32", "u8": "uint8",
	"u16": "uint16", "pointer": "uint64", "handle": "abi.Handle",
}

// goType is a parameter's type in Go.
func (s *spec) goType(p param) string {
	switch {
	case p.isString():
		return "string"
	case p.isArray() && s.elementBytes(p) == 8:
		return "Words"
	case p.isArray():
		return "[]byte"
	}
	return goTypes[s.wire[p.ctype]]
}

// goCodec writes, for package wire, a struct for each direction of each call with Append and
// Decode.
func goCodec(s *spec) ([]byte, error) {
	var b strings.Builder
	b.WriteString(
		goBanner + "package wire\n\nimport (\n\t\"encoding/binary\"\n\t\"math\"\n\n\t\"github.com/phos-gpu/phos/hijack/abi\"\n)\n",
	)
	for _, c := range s.framedCalls() {
		scalars, arrays := c.sent()
		if len(scalars)+len(arrays) > 0 {
			s.goMessage(&b, c.goName(), fmt.Sprintf("is what %s sends.", c.name), scalars, arrays)
		}
		scalars, arrays = c.returned()
		if len(scalars)+len(arrays) > 0 {
			s.goMessage(&b, c.goName()+"Reply", fmt.Sprintf("is what %s gets back.", c.name), scalars, arrays)
		}
	}
	s.goDecoders(&b)
	return format.Source([]byte(b.String()))
}

// goMessage writes a message's type with its methods Append and Decode.
func (s *spec) goMessage(b *strings.Builder, name, doc string, scalars, arrays []param) {
	fmt.Fprintf(b, "\n// %s %s\ntype %s struct {\n", name, doc, name)
	for _, p := range append(append([]param{}, scalars...), arrays...) {
		fmt.Fprintf(b, "\t%s %s\n", p.goField(), s.goType(p))
	}
	fmt.Fprintf(b, "}\n\n// Append encodes the message behind data.\nfunc (m *%s) Append(data []byte) []byte {\n", name)
	for _, p := range scalars {
		fmt.Fprintf(b, "\tdata = binary.LittleEndian.AppendUint64(data, %s)\n", s.goWord(p))
	}
	for _, p := range arrays {
		fmt.Fprintf(b, "\tdata = appendArray(data, m.%s)\n", p.goField())
	}
	fmt.Fprintf(
		b,
		"\treturn data\n}\n\n// Decode reads the message; arrays in it alias payload.\nfunc (m *%s) Decode(payload []byte) error {\n",
		name,
	)
	s.goDecode(b, name, scalars, arrays)
	b.WriteString("}\n")
}

// goDecode checks the length once, then reads scalars from fixed places and arrays from behind
// them.
func (s *spec) goDecode(b *strings.Builder, name string, scalars, arrays []param) {
	size := 8 * len(scalars)
	if len(arrays) == 0 {
		fmt.Fprintf(
			b,
			"\tif len(payload) != %d {\n\t\treturn wrongLength(%q, len(payload), %d)\n\t}\n",
			size,
			name,
			size,
		)
	} else {
		fmt.Fprintf(b, "\tif len(payload) < %d {\n\t\treturn wrongLength(%q, len(payload), %d)\n\t}\n", size+8*len(arrays), name, size+8*len(arrays))
	}
	for i, p := range scalars {
		fmt.Fprintf(
			b,
			"\tm.%s = %s\n",
			p.goField(),
			s.goRead(p, fmt.Sprintf("binary.LittleEndian.Uint64(payload[%d:])", 8*i)),
		)
	}
	if len(arrays) == 0 {
		b.WriteString("\treturn nil\n")
		return
	}
	fmt.Fprintf(b, "\tr := arrayReader{rest: payload[%d:]}\n", size)
	for _, p := range arrays {
		switch s.goType(p) {
		case "string":
			fmt.Fprintf(b, "\tm.%s = string(r.array(1))\n", p.goField())
		default:
			fmt.Fprintf(b, "\tm.%s = r.array(%d)\n", p.goField(), s.elementBytes(p))
		}
	}
	fmt.Fprintf(b, "\treturn r.end(%q)\n", name)
}

// goWord returns the Go expression of a field as the uint64 that is sent.
func (s *spec) goWord(p param) string {
	field := "m." + p.goField()
	switch s.wire[p.ctype] {
	case "f32":
		return "uint64(math.Float32bits(" + field + "))"
	case "u64", "pointer":
		return field
	}
	return "uint64(" + field + ")"
}

// goRead returns the Go expression of a field's value from the word that was received.
func (s *spec) goRead(p param, word string) string {
	switch wire := s.wire[p.ctype]; wire {
	case "f32":
		return "math.Float32frombits(uint32(" + word + "))"
	case "u64", "pointer":
		return word
	default:
		return goTypes[wire] + "(" + word + ")"
	}
}

// goDecoders writes a table by which tests decode any call.
func (s *spec) goDecoders(b *strings.Builder) {
	b.WriteString(
		"\n// NewMessage makes the empty message that a call sends, nil for one that sends nothing.\nfunc NewMessage(call abi.Call) Message {\n\tswitch call {\n",
	)
	for _, c := range s.framedCalls() {
		if scalars, arrays := c.sent(); len(scalars)+len(arrays) > 0 {
			fmt.Fprintf(b, "\tcase abi.Call%s:\n\t\treturn new(%s)\n", c.goName(), c.goName())
		}
	}
	b.WriteString(
		"\t}\n\treturn nil\n}\n\n// NewReply makes the empty message that a call gets back, nil for one that gets nothing.\nfunc NewReply(call abi.Call) Message {\n\tswitch call {\n",
	)
	for _, c := range s.framedCalls() {
		if scalars, arrays := c.returned(); len(scalars)+len(arrays) > 0 {
			fmt.Fprintf(b, "\tcase abi.Call%s:\n\t\treturn new(%sReply)\n", c.goName(), c.goName())
		}
	}
	b.WriteString("\t}\n\treturn nil\n}\n")
}
