package token

import (
	"fmt"
	"strings"
)

// Pos is a position in a text; both numbers start at 1.
type Pos struct{ Line, Column int32 }

func (p Pos) String() string { return fmt.Sprintf("line %d, column %d", p.Line, p.Column) }

// Kind is the kind of a token. A single-character token has its character as kind.
type Kind uint8

// Kinds of tokens that are not a single character.
const (
	EOF    Kind = 0
	Ident  Kind = iota + 128 // name, %name, $name, %name.x
	Dot                      // .word
	Int                      // 12, 0x1F, 017, 0b1, each with or without U
	Float                    // 1.5, 1e3, 0f3F800000, 0d3FF0000000000000
	String                   // "text"
	Op                       // an operator of two characters
	Bad
)

// Lexer splits a text into tokens. Kind, Text and the start position describe the current token.
type Lexer struct {
	src       string
	off       int // of the first unread byte
	line      int32
	lineStart int

	Kind  Kind
	Text  string
	start int
	// startLine and startColumn are the start of the current token: a string or comment may span
	// lines.
	startLine, startColumn int32
}

// New returns a lexer before the first token of a text.
func New(src string) Lexer { return Lexer{src: src, line: 1} }

// Character classes.
const (
	classSpace = 1 << iota
	classLetter
	classDigit
	classSymbol // _ $
)

var classes = func() (table [256]uint8) {
	for c := range table {
		switch b := byte(c); {
		case b == ' ' || b == '\t' || b == '\r' || b == '\f' || b == '\v':
			table[c] = classSpace
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
			table[c] = classLetter
		case '0' <= b && b <= '9':
			table[c] = classDigit
		case b == '_' || b == '$':
			table[c] = classSymbol
		}
	}
	return table
}()

const classWord = classLetter | classDigit | classSymbol

// InWord reports whether a byte may be part of a name.
func InWord(c byte) bool { return classes[c]&classWord != 0 }

// IsDigit reports whether a byte is a decimal digit.
func IsDigit(c byte) bool { return classes[c] == classDigit }

// Pos returns the start of the current token.
func (l *Lexer) Pos() Pos { return Pos{l.startLine, l.startColumn} }

// skipSpace skips blanks, comments and C preprocessor lines. It returns false in an unterminated
// comment.
func (l *Lexer) skipSpace() bool {
	for l.off < len(l.src) {
		c := l.src[l.off]
		switch {
		case classes[c] == classSpace:
			l.off++
		case c == '\n':
			l.off++
			l.line++
			l.lineStart = l.off
		case c == '#' && l.off == l.lineStart:
			l.SkipLine()
		case c == '/' && l.following() == '/':
			l.SkipLine()
		case c == '/' && l.following() == '*':
			if !l.skipComment() {
				return false
			}
		default:
			return true
		}
	}
	return true
}

// SkipLine moves to the end of the line.
func (l *Lexer) SkipLine() {
	if n := strings.IndexByte(l.src[l.off:], '\n'); n >= 0 {
		l.off += n
	} else {
		l.off = len(l.src)
	}
}

// skipComment skips a comment; it returns false if it is not terminated.
func (l *Lexer) skipComment() bool {
	n := strings.Index(l.src[l.off+2:], "*/")
	if n < 0 {
		return false
	}
	l.advanceOver(l.off + 2 + n + 2)
	return true
}

// advanceOver moves to offset end and counts the lines in between.
func (l *Lexer) advanceOver(end int) {
	for i := l.off; i < end; i++ {
		if l.src[i] == '\n' {
			l.line++
			l.lineStart = i + 1
		}
	}
	l.off = end
}

// following returns the byte after the current one, 0 at the end.
func (l *Lexer) following() byte {
	if l.off+1 < len(l.src) {
		return l.src[l.off+1]
	}
	return 0
}

// mark starts the current token at the next byte.
func (l *Lexer) mark() {
	l.start = l.off
	l.startLine = l.line
	l.startColumn = int32(l.off-l.lineStart) + 1
}

// Next moves to the next token.
func (l *Lexer) Next() {
	ended := l.skipSpace()
	l.mark()
	if !ended {
		l.finish(Bad, len(l.src))
		return
	}
	if l.off >= len(l.src) {
		l.Kind, l.Text = EOF, ""
		return
	}
	c := l.src[l.off]
	switch class := classes[c]; {
	case class == classDigit:
		l.number()
	case class&(classLetter|classSymbol) != 0, c == '%' && classes[l.following()]&classWord != 0:
		l.finish(Ident, l.identEnd())
	case c == '.' && classes[l.following()]&(classLetter|classSymbol) != 0:
		l.finish(Dot, l.wordEnd(l.off+1))
	case c == '.' && classes[l.following()] == classDigit:
		l.number()
	case c == '"':
		l.quoted()
	default:
		l.operator(c)
	}
}

// finish ends the current token at an offset.
func (l *Lexer) finish(kind Kind, end int) {
	l.Kind, l.Text, l.off = kind, l.src[l.off:end], end
}

// wordEnd returns the end of the word at an offset.
func (l *Lexer) wordEnd(i int) int {
	for i < len(l.src) && classes[l.src[i]]&classWord != 0 {
		i++
	}
	return i
}

// identEnd includes the component of a special register: %tid.x.
func (l *Lexer) identEnd() int {
	end := l.wordEnd(l.off + 1)
	if l.src[l.off] == '%' && end+1 < len(l.src) && l.src[end] == '.' && classes[l.src[end+1]] == classLetter {
		end = l.wordEnd(end + 1)
	}
	return end
}

// Opcode extends the current identifier over its modifiers, "ld.global.L1::evict_last.u32", and
// returns the whole.
func (l *Lexer) Opcode() string {
	i := l.off
	for i < len(l.src) {
		switch c := l.src[i]; {
		case c == '.' || classes[c]&classWord != 0:
			i++
		case c == ':' && i+1 < len(l.src) && l.src[i+1] == ':':
			i += 2
		default:
			l.off = i
			l.Text = l.src[l.start:i]
			return l.Text
		}
	}
	l.off = i
	l.Text = l.src[l.start:i]
	return l.Text
}

// number takes a literal as far as it looks like one; the parser validates it.
func (l *Lexer) number() {
	kind, i := Int, l.off
	hexFloat := l.src[i] == '0' && (l.following()|0x20 == 'f' || l.following()|0x20 == 'd')
	hex := l.src[i] == '0' && l.following()|0x20 == 'x'
	if hexFloat {
		l.finish(Float, l.wordEnd(i))
		return
	}
	for i < len(l.src) {
		c := l.src[i]
		switch {
		case classes[c]&(classLetter|classDigit) != 0:
			exponent := !hex && c|0x20 == 'e'
			if exponent {
				kind = Float
			}
			i++
			if exponent && i < len(l.src) && (l.src[i] == '+' || l.src[i] == '-') {
				i++
			}
		case c == '.' && !hex:
			kind = Float
			i++
		default:
			l.finish(kind, i)
			return
		}
	}
	l.finish(kind, i)
}

// quoted takes a string literal.
func (l *Lexer) quoted() {
	for i := l.off + 1; i < len(l.src) && l.src[i] != '\n'; i++ {
		switch l.src[i] {
		case '\\':
			i++
		case '"':
			l.finish(String, i+1)
			return
		}
	}
	l.finish(Bad, l.off+1)
}

// operator takes an operator of one or two characters.
func (l *Lexer) operator(c byte) {
	switch d := l.following(); {
	case (c == '<' || c == '>' || c == '&' || c == '|') && d == c,
		(c == '<' || c == '>' || c == '=' || c == '!') && d == '=':
		l.finish(Op, l.off+2)
	case c < 128 && strings.IndexByte("+-*/%~!<>&|^?:()[]{},;=@", c) >= 0:
		l.finish(Kind(c), l.off+1)
	default:
		l.finish(Bad, l.off+1)
	}
}
