package main

import (
	"fmt"
	"sort"
	"strings"
)

// check finds what the parser cannot see a line at a time, and fills spec.wire.
func (s *spec) check() error {
	s.wire = map[string]string{}
	for _, t := range s.types {
		s.wire[t.name] = t.wire
	}
	names, numbers, goNames := map[string]string{}, map[int]string{}, map[string]string{}
	for _, c := range s.calls {
		if err := s.checkCall(c); err != nil {
			return fmt.Errorf("%s: call %s: %w", c.where, c.name, err)
		}
		for _, name := range append(c.symbols(), c.name) {
			if other := names[name]; other != "" && other != c.where {
				return fmt.Errorf("%s: %s stands at %s too", c.where, name, other)
			}
			names[name] = c.where
		}
		if !c.framed() {
			continue
		}
		if other := numbers[c.number]; other != "" {
			return fmt.Errorf("%s: %s and %s have number %d", c.where, c.name, other, c.number)
		}
		if other := goNames[c.goName()]; other != "" {
			return fmt.Errorf("%s: %s and %s are both %s in Go", c.where, c.name, other, c.goName())
		}
		numbers[c.number], goNames[c.goName()] = c.name, c.name
	}
	return s.checkProcs()
}

func (s *spec) checkCall(c *call) error {
	if c.framed() != (c.number > 0) {
		return fmt.Errorf("a number belongs to the classes async, sync and wait, and to no other")
	}
	if c.number > 0xffff {
		return fmt.Errorf("number %d does not fit 16 bits", c.number)
	}
	if !c.exported() && (!c.framed() || c.custom || c.twin != "" || len(c.procs) > 0) {
		return fmt.Errorf("a wire call has a frame and no entry point")
	}
	if c.twin != "" && c.twin != "ptsz" && c.twin != "ptds" {
		return fmt.Errorf("twin is ptsz or ptds, not %q", c.twin)
	}
	switch c.class {
	case local, refuse:
		return nil
	case alias:
		return s.checkAlias(c)
	case async, sync, wait:
	default:
		return fmt.Errorf("unknown class %q", c.class)
	}
	return s.checkFrame(c)
}

func (s *spec) checkFrame(c *call) error {
	for _, p := range c.params {
		if c.class == async && p.dir != in {
			return fmt.Errorf("an async call returns nothing, not %s", p.name)
		}
		if p.isString() && p.dir == in {
			continue
		}
		if s.wire[p.ctype] == "" && !(p.dir != in && p.ctype == "char" && p.isArray()) {
			return fmt.Errorf("parameter %s: type %q is not in types.api", p.name, p.ctype)
		}
		if p.dir == in && p.isArray() && !c.hasInput(p.count) {
			return fmt.Errorf("parameter %s is counted by %q, which is no parameter", p.name, p.count)
		}
	}
	return nil
}

// checkAlias follows the target, which is an exported call or a sender of a wire call.
func (s *spec) checkAlias(c *call) error {
	name := strings.TrimPrefix(c.target, "phos_call_")
	for _, other := range s.calls {
		if other.name != name {
			continue
		}
		if c.args == "" && len(other.params) != len(c.params) && !strings.HasSuffix(c.target, "(") {
			return fmt.Errorf("has %d parameters and %s has %d", len(c.params), name, len(other.params))
		}
		return nil
	}
	return fmt.Errorf("unknown target %q", c.target)
}

// hasInput reports whether a call has an in parameter of this name.
func (c *call) hasInput(name string) bool {
	for _, p := range c.params {
		if p.name == name && p.dir == in {
			return true
		}
	}
	return false
}

// checkProcs makes sure that a look-up has one answer.
func (s *spec) checkProcs() error {
	seen := map[proc]string{}
	for _, c := range s.calls {
		for _, p := range c.procs {
			if other := seen[p]; other != "" {
				return fmt.Errorf("%s: %s and %s both answer %s since %d", c.where, c.name, other, p.name, p.version)
			}
			seen[p] = c.name
		}
	}
	return nil
}

// framedCalls lists the calls that travel, by number.
func (s *spec) framedCalls() []*call {
	var calls []*call
	for _, c := range s.calls {
		if c.framed() {
			calls = append(calls, c)
		}
	}
	sort.Slice(calls, func(i, j int) bool { return calls[i].number < calls[j].number })
	return calls
}
