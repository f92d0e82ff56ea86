package ptx

import (
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/ptx/token"
)

// unread is a body that Outline has skipped: the parser's position and state.
type unread struct {
	lex   token.Lexer
	fn    *funcState
	scope *scope
	err   error // why it could not be read
}

// Outline reads a text like Parse, but skips the bodies of functions: libraries have megabytes of
// them, and a program runs few. Complete reads a body; errors in it are only found there.
func Outline(text string) (*Module, error) { return parse(text, true) }

// Defined reports whether a function has a body, read or not.
func (f *Func) Defined() bool { return len(f.Insts) > 0 || f.unread != nil }

// Complete reads the body of a function that Outline has skipped. The error is an ErrorList.
// Nothing else may use the module during the call.
func (m *Module) Complete(f *Func) error {
	u := f.unread
	if u == nil {
		return nil
	}
	if u.err == nil {
		u.err = m.parser.resume(u)
	}
	if u.err == nil {
		f.unread = nil
	} else {
		f.Insts = nil // what was read of it must not run
	}
	return u.err
}

// Outlined reports whether Outline made the module, so that bodies may be unread.
func (m *Module) Outlined() bool { return m.parser != nil }

// Declares reports whether the text declares or defines a function of that name.
func (m *Module) Declares(function string) bool {
	return slices.ContainsFunc(m.Funcs, func(f *Func) bool { return f.Name == function })
}

// Mentions reports whether an outlined text contains a word, even in a comment.
func (m *Module) Mentions(word string) bool {
	for text := m.parser.text; ; {
		_, rest, found := strings.Cut(text, word)
		if !found || rest == "" || !token.InWord(rest[0]) {
			return found
		}
		text = rest
	}
}

// resume parses a skipped body.
func (p *parser) resume(u *unread) (err error) {
	p.errors, p.bad, p.braces, p.depth = nil, false, 0, 0
	p.lex, p.fn, p.scope = u.lex, u.fn, u.scope
	p.fn.insts = p.instBuffer()
	defer func() {
		p.fn, p.scope = nil, &p.global
		if caught := p.caught(recover()); caught != nil {
			err = caught
		}
	}()
	p.body()
	if len(p.errors) > 0 {
		return p.errors
	}
	return nil
}

// passOver skips the body that starts here. It returns false if linkers must know what the body
// declares: variables of the module, or a function's shared memory.
func (p *parser) passOver() bool {
	ahead := p.lex
	if !ahead.SkipBody(p.fn.f.Entry) {
		return false
	}
	f := p.fn.f
	f.unread = &unread{lex: p.lex, fn: p.fn, scope: p.scope}
	p.insts = p.fn.insts // the buffer is the next function's
	p.fn.insts = nil
	p.lex = ahead
	p.next()
	return true
}
