package main

import (
	"regexp"
	"strings"
	"unicode"
)

// spec is everything that hijack/spec says.
type spec struct {
	calls   []*call // by file, then as written
	types   []ctype
	structs []cstruct
	results []result
	layout  []constant
	nvml    nvml
	wire    map[string]string // how a scalar type travels
}

// class is how a call is served; see hijack/spec/README.md.
type class string

const (
	local  class = "local"
	async  class = "async"
	sync   class = "sync"
	wait   class = "wait"
	alias  class = "alias"
	refuse class = "refuse"
)

type call struct {
	name     string
	number   int // 0 where there is no frame
	class    class
	custom   bool
	params   []param
	procs    []proc
	twin     string // "ptsz", "ptds" or nothing
	target   string // of an alias: C function
	args     string // of an alias: C arguments, nothing for its own parameters
	free     bool   // works without a current context
	internal bool   // posted by the shim for itself
	topic    string // the file's name
	note     string // for the coverage page
	where    string // file:line, for errors
}

type direction string

const (
	in          direction = "in"
	out         direction = "out"
	outOptional direction = "out?"
)

type param struct {
	dir   direction
	name  string
	ctype string // element type of an array
	count string // array: the parameter that counts it, or for out arrays the maximum
}

// proc is one answer of cuGetProcAddress.
type proc struct {
	name    string
	version int
}

type ctype struct{ name, wire, definition string }

type cstruct struct {
	name   string
	bytes  int
	fields []string
}

type result struct {
	number int
	name   string
}

func (c *call) exported() bool { return strings.HasPrefix(c.name, "cu") }

// framed reports whether the call travels.
func (c *call) framed() bool { return c.class == async || c.class == sync || c.class == wait }

func (c *call) implemented() bool { return c.class != refuse }

// symbols lists the names libphos exports for the call.
func (c *call) symbols() []string {
	if !c.exported() {
		return nil
	}
	if c.twin == "" {
		return []string{c.name}
	}
	return []string{c.name, c.name + "_" + c.twin}
}

func (p param) isArray() bool { return p.count != "" }

func (p param) isString() bool { return p.ctype == "string" }

// isCount reports whether p only counts an in array of the call, and so is not sent.
func (c *call) isCount(p param) bool {
	for _, q := range c.params {
		if q.dir == in && q.count == p.name {
			return true
		}
	}
	return false
}

// sent lists what travels to the worker: scalars first, then arrays and strings.
func (c *call) sent() (scalars, arrays []param) {
	for _, p := range c.params {
		switch {
		case p.dir != in || c.isCount(p):
		case p.isArray() || p.isString():
			arrays = append(arrays, p)
		default:
			scalars = append(scalars, p)
		}
	}
	return scalars, arrays
}

// returned lists what comes back, in the same order.
func (c *call) returned() (scalars, arrays []param) {
	for _, p := range c.params {
		switch {
		case p.dir == in:
		case p.isArray():
			arrays = append(arrays, p)
		default:
			scalars = append(scalars, p)
		}
	}
	return scalars, arrays
}

var versionSuffix = regexp.MustCompile(`_v[0-9]+$`)

// goName is the call's name in Go: cuMemAlloc_v2 is MemAlloc, moduleLoad is ModuleLoad.
func (c *call) goName() string {
	return capitalize(versionSuffix.ReplaceAllString(strings.TrimPrefix(c.name, "cu"), ""))
}

// goField is a parameter's name in Go.
func (p param) goField() string {
	var b strings.Builder
	for _, part := range strings.Split(p.name, "_") {
		b.WriteString(capitalize(part))
	}
	return b.String()
}

// capitalize returns s with its first letter, which is ASCII, in upper case.
func capitalize(s string) string {
	if s == "" {
		return s
	}
	return string(unicode.ToUpper(rune(s[0]))) + s[1:]
}

func lower(s string) string { return string(unicode.ToLower(rune(s[0]))) + s[1:] }
