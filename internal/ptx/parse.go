package ptx

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/internal/ptx/token"
)

// Limits for the memory that a text can make the parser or an executor use.
const (
	maxRegisters  = 1 << 20 // per class and function
	maxNumbered   = 1 << 14 // of them, those in ranges whose prefix ends in a digit
	maxNesting    = 256     // of scopes, parentheses and initialiser braces
	maxFrameBytes = 1 << 24 // of local memory, or parameters
	maxArrayBytes = 1 << 40 // of one variable
	maxInitBytes  = 64 << 20
)

// parser is the state of one Parse. An error in a statement sets bad. Every loop ends on it, and
// the innermost list of statements resynchronizes by recover.
type parser struct {
	text   string
	lex    token.Lexer
	errors ErrorList
	bad    bool
	depth  int
	braces int // open braces of the current statement: vectors and initialisers

	module *Module
	global scope
	scope  *scope
	// initLeft is how many more bytes of initialisers are allowed.
	initLeft uint64

	fn      *funcState
	decoded map[string]*decoded // by opcode text, see decode
	ops     []rawOperand        // of the current instruction
	elems   []rawOperand        // of its vectors
	slab    []Operand           // unused operands, handed out by takeOperands
	insts   []Inst              // buffer reused by all functions
	// labelAtEnd is set if a label follows the last instruction so far.
	labelAtEnd bool
	outline    bool
}

// Parse parses one PTX text. The error is an ErrorList.
func Parse(text string) (*Module, error) { return parse(text, false) }

// parse parses a text; with outline, it skips the bodies of functions.
func parse(text string, outline bool) (module *Module, err error) {
	// The driver accepts text with a final NUL.
	text = strings.TrimRight(text, "\x00")
	p := &parser{
		text:     text,
		lex:      token.New(text),
		module:   &Module{},
		decoded:  map[string]*decoded{},
		initLeft: maxInitBytes + 8*uint64(len(text)),
		outline:  outline,
	}
	p.scope = &p.global
	defer func() {
		if caught := p.caught(recover()); caught != nil {
			module, err = nil, caught
		}
	}()
	p.parseModule()
	if len(p.errors) > 0 {
		return nil, p.errors
	}
	if outline {
		p.module.parser = p
	}
	return p.module, nil
}

// caught returns an error for the panic that ends a parse after too many errors.
func (p *parser) caught(r any) error {
	switch r.(type) {
	case nil:
		return nil
	case tooMany:
		return p.errors
	}
	panic(r)
}

func (p *parser) next() { p.lex.Next() }

func (p *parser) at(kind token.Kind) bool { return p.lex.Kind == kind }

// accept consumes a token if it is of this kind.
func (p *parser) accept(kind token.Kind) bool {
	if p.lex.Kind != kind || p.bad {
		return false
	}
	p.lex.Next()
	return true
}

// acceptDot consumes a dot and a word if they follow.
func (p *parser) acceptDot(word string) bool {
	if p.lex.Kind != token.Dot || p.lex.Text != word || p.bad {
		return false
	}
	p.lex.Next()
	return true
}

// expect consumes a token, or reports an error.
func (p *parser) expect(kind token.Kind) {
	if !p.accept(kind) {
		p.errorf("expected '%c', found %s", rune(kind), p.found())
	}
}

// found describes the current token for a message.
func (p *parser) found() string {
	switch {
	case p.at(token.EOF):
		return "end of text"
	case p.at(token.Bad) && strings.HasPrefix(p.lex.Text, "/*"):
		return "a comment without end"
	case p.at(token.Bad) && p.lex.Text == `"`:
		return "a string without end"
	case len(p.lex.Text) > 40:
		return "'" + strings.ToValidUTF8(p.lex.Text[:40], "?") + "...'"
	}
	return "'" + strings.ToValidUTF8(p.lex.Text, "?") + "'"
}

// name takes an identifier.
func (p *parser) name() (string, Pos) {
	pos, text := p.lex.Pos(), p.lex.Text
	if !p.accept(token.Ident) {
		p.errorf("expected a name, found %s", p.found())
	}
	return text, pos
}

// enter limits the nesting depth; each call that returns true needs a leave.
func (p *parser) enter() bool {
	if p.depth >= maxNesting {
		p.errorf("nested deeper than %d", maxNesting)
		return false
	}
	p.depth++
	return true
}

func (p *parser) leave() { p.depth-- }

// closeBrace ends a vector or initializer. After an error the brace stays open, for recover.
func (p *parser) closeBrace() {
	if p.expect('}'); !p.bad {
		p.braces--
	}
}

// recover resynchronizes after an error: after the next ';', or before a brace that is not part of
// the statement.
func (p *parser) recover() {
	if !p.bad {
		return
	}
	p.bad = false
	open := p.braces
	p.braces = 0
	for ; !p.at(token.EOF); p.next() {
		switch {
		case p.accept(';'):
			return
		case p.at('{') && p.vectorAhead():
			open++
		case p.at('{'):
			return
		case p.at('}'):
			if open--; open < 0 {
				return
			}
		}
	}
}

// vectorAhead reports whether a brace begins a vector, not a scope: it contains no statement.
func (p *parser) vectorAhead() bool {
	ahead := p.lex
	for {
		switch ahead.Next(); ahead.Kind {
		case '}':
			return true
		case ';', '{', token.EOF, token.Dot:
			return false
		}
	}
}

// skipBraces skips a balanced { ... }.
func (p *parser) skipBraces() {
	for depth := 0; !p.at(token.EOF); p.next() {
		if p.at('{') {
			depth++
		} else if p.at('}') {
			if depth--; depth <= 0 {
				p.next()
				return
			}
		}
	}
}

// skipLine skips the rest of the line that the current token is on.
func (p *parser) skipLine() {
	p.lex.SkipLine()
	p.next()
}

// maxErrors is how many errors Parse collects before it gives up on a text.
const maxErrors = 10

// Error is one error in a text.
type Error struct {
	Pos Pos
	Msg string
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

// ErrorList is returned by Parse: the first errors of a text, in order, never empty.
type ErrorList []*Error

// Error returns one line per error, in the form of a JIT error log.
func (l ErrorList) Error() string {
	var b strings.Builder
	for i, e := range l {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

// Unwrap lets errors.As find the first *Error.
func (l ErrorList) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// tooMany is the panic value that ends a parse after maxErrors; Parse recovers it.
type tooMany struct{}

// errorAt reports an error and marks the current statement bad. No further errors are reported
// until the parser has resynchronized.
func (p *parser) errorAt(pos Pos, format string, args ...any) {
	if p.bad {
		return
	}
	p.bad = true
	p.errors = append(p.errors, &Error{pos, fmt.Sprintf(format, args...)})
	if len(p.errors) >= maxErrors {
		panic(tooMany{})
	}
}

// errorf is errorAt for the current token.
func (p *parser) errorf(format string, args ...any) { p.errorAt(p.lex.Pos(), format, args...) }
