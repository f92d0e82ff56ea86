package ptx

import (
	"fmt"
	"strings"
)

// maxErrors is how many errors Parse collects before it gives up on a text.
const maxErrors = 10

// Error is one thing wrong with a text.
type Error struct {
	Pos Pos
	Msg string
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

func (p Pos) String() string { return fmt.Sprintf("line %d, column %d", p.Line, p.Column) }

// ErrorList is what Parse returns: the first errors of a text, in its order, never empty.
type ErrorList []*Error

// Error gives one line per error, which is the form of a JIT error log.
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

// errorAt notes an error and marks the current statement bad: until the parser is in step again, nothing more is reported.
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

// errorf is errorAt the current token.
func (p *parser) errorf(format string, args ...any) { p.errorAt(p.lex.pos(), format, args...) }
