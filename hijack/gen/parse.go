package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// load reads and checks every *.api file of a directory.
func load(dir string) (*spec, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.api"))
	if err != nil {
		return nil, err
	}
	sort.Strings(paths)
	s := &spec{}
	for _, path := range paths {
		if err := s.read(path); err != nil {
			return nil, err
		}
	}
	if len(s.calls) == 0 {
		return nil, fmt.Errorf("no calls in %s", dir)
	}
	return s, s.check()
}

// reader holds the stanza that further lines belong to.
type reader struct {
	*spec
	file  string
	line  int
	call  *call
	struc *cstruct
}

func (s *spec) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	p := reader{spec: s, file: filepath.Base(path)}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		p.line++
		if err := p.parse(lines.Text()); err != nil {
			return fmt.Errorf("%s:%d: %w", p.file, p.line, err)
		}
	}
	return lines.Err()
}

func (p *reader) parse(text string) error {
	if i := strings.Index(text, "#"); i >= 0 {
		text = text[:i]
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	if text[0] != ' ' {
		p.call, p.struc = nil, nil
		return p.parseHead(words)
	}
	switch {
	case p.struc != nil:
		p.struc.fields = append(p.struc.fields, strings.TrimSpace(text))
		p.structs[len(p.structs)-1] = *p.struc
		return nil
	case p.call != nil:
		return p.parseMember(words)
	}
	return fmt.Errorf("line outside a stanza")
}

// parseHead reads the first line of a stanza.
func (p *reader) parseHead(words []string) error {
	switch words[0] {
	case "call":
		return p.startCall(words[1:])
	case "refuse":
		return p.refused(words[1:])
	case "type":
		return p.typeLine(words[1:])
	case "struct":
		return p.startStruct(words[1:])
	case "result":
		if len(words) != 3 {
			return fmt.Errorf("want result NUMBER NAME")
		}
		number, err := strconv.Atoi(words[1])
		p.results = append(p.results, result{number, words[2]})
		return err
	}
	return fmt.Errorf("unknown stanza %q", words[0])
}

func (p *reader) startCall(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("want call NAME [NUMBER] CLASS")
	}
	c := &call{name: words[0], topic: strings.TrimSuffix(p.file, ".api"), where: fmt.Sprintf("%s:%d", p.file, p.line)}
	words = words[1:]
	if number, err := strconv.Atoi(words[0]); err == nil {
		c.number = number
		words = words[1:]
	}
	if len(words) == 0 {
		return fmt.Errorf("call %s has no class", c.name)
	}
	c.class = class(words[0])
	words = words[1:]
	if c.class == alias {
		c.target, c.args, _ = strings.Cut(strings.Join(words, " "), "(")
		c.args = strings.TrimSuffix(c.args, ")")
		words = nil
	}
	if len(words) == 1 && words[0] == "custom" {
		c.custom = true
		words = nil
	}
	if len(words) > 0 {
		return fmt.Errorf("call %s: unexpected %q", c.name, words[0])
	}
	p.call = c
	p.calls = append(p.calls, c)
	return nil
}

// refused reads one line: NAME [PROC VERSION [TWIN]].
func (p *reader) refused(words []string) error {
	if len(words) == 0 || len(words) == 2 || len(words) > 4 {
		return fmt.Errorf("want refuse NAME [PROC VERSION [TWIN]]")
	}
	c := &call{
		name:  words[0],
		class: refuse,
		topic: strings.TrimSuffix(p.file, ".api"),
		where: fmt.Sprintf("%s:%d", p.file, p.line),
	}
	p.calls = append(p.calls, c)
	if len(words) > 1 {
		version, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		c.procs = []proc{{words[1], version}}
	}
	if len(words) == 4 {
		c.twin = words[3]
	}
	return nil
}

// parseMember reads an indented line of a call's stanza.
func (p *reader) parseMember(words []string) error {
	c := p.call
	switch words[0] {
	case "in", "out", "out?":
		if len(words) < 3 {
			return fmt.Errorf("want %s NAME TYPE", words[0])
		}
		c.params = append(c.params, newParam(direction(words[0]), words[1], strings.Join(words[2:], " ")))
	case "proc":
		if len(words) != 3 {
			return fmt.Errorf("want proc NAME VERSION")
		}
		version, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		c.procs = append(c.procs, proc{words[1], version})
	case "twin":
		c.twin = words[len(words)-1]
	case "nocontext":
		c.free = true
	case "internal":
		c.internal = true
	case "note":
		c.note = strings.Join(words[1:], " ")
	case "made", "ends": // for the reader
	default:
		return fmt.Errorf("unknown line %q", words[0])
	}
	return nil
}

func newParam(dir direction, name, typ string) param {
	p := param{dir: dir, name: name, ctype: typ}
	if base, rest, found := strings.Cut(typ, "["); found {
		p.ctype, p.count = base, strings.TrimSuffix(rest, "]")
	}
	return p
}

func (p *reader) startStruct(words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("want struct NAME BYTES")
	}
	bytes, err := strconv.Atoi(words[1])
	p.struc = &cstruct{name: words[0], bytes: bytes}
	p.structs = append(p.structs, *p.struc)
	return err
}

// wires are the ways a scalar can travel.
var wires = map[string]bool{
	"i32":     true,
	"u32":     true,
	"u64":     true,
	"f32":     true,
	"u8":      true,
	"u16":     true,
	"pointer": true,
	"handle":  true,
}

// typeLine reads NAME WIRE [DEFINITION]; the name may have several words.
func (p *reader) typeLine(words []string) error {
	for i := 1; i < len(words); i++ {
		if !wires[words[i]] {
			continue
		}
		p.types = append(p.types, ctype{strings.Join(words[:i], " "), words[i], strings.Join(words[i+1:], " ")})
		return nil
	}
	return fmt.Errorf("type line without a way to travel")
}
