package ptx

import "strings"

// tokenKind tells tokens apart. Single-character tokens have their character as kind.
type tokenKind uint8

const (
	tokenEOF    tokenKind = 0
	tokenIdent  tokenKind = iota + 128 // name, %name, $name, %name.x
	tokenDot                           // .word
	tokenInt                           // 12, 0x1F, 017, 0b1, each with or without U
	tokenFloat                         // 1.5, 1e3, 0f3F800000, 0d3FF0000000000000
	tokenString                        // "text"
	tokenOp                            // an operator of two characters
	tokenBad
)

// lexer cuts a text into tokens. The fields kind, text and start describe the current one.
type lexer struct {
	src       string
	off       int // of the first unread byte
	line      int32
	lineStart int

	kind  tokenKind
	text  string
	start int
	// startLine and startColumn belong to the current token: a string or comment can move line on.
	startLine, startColumn int32
}

func newLexer(src string) lexer { return lexer{src: src, line: 1} }

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

func (l *lexer) pos() Pos { return Pos{l.startLine, l.startColumn} }

// skipSpace skips blanks, comments and lines of a C preprocessor. It returns false in an unended comment.
func (l *lexer) skipSpace() bool {
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
			l.skipLine()
		case c == '/' && l.following() == '/':
			l.skipLine()
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

func (l *lexer) skipLine() {
	if n := strings.IndexByte(l.src[l.off:], '\n'); n >= 0 {
		l.off += n
	} else {
		l.off = len(l.src)
	}
}

func (l *lexer) skipComment() bool {
	n := strings.Index(l.src[l.off+2:], "*/")
	if n < 0 {
		return false
	}
	l.advanceOver(l.off + 2 + n + 2)
	return true
}

// advanceOver moves to offset end and counts the lines in between.
func (l *lexer) advanceOver(end int) {
	for i := l.off; i < end; i++ {
		if l.src[i] == '\n' {
			l.line++
			l.lineStart = i + 1
		}
	}
	l.off = end
}

// following is the byte behind the current one, 0 at the end.
func (l *lexer) following() byte {
	if l.off+1 < len(l.src) {
		return l.src[l.off+1]
	}
	return 0
}

// mark makes the next byte the start of the current token.
func (l *lexer) mark() {
	l.start = l.off
	l.startLine = l.line
	l.startColumn = int32(l.off-l.lineStart) + 1
}

// next moves to the next token.
func (l *lexer) next() {
	ended := l.skipSpace()
	l.mark()
	if !ended {
		l.finish(tokenBad, len(l.src))
		return
	}
	if l.off >= len(l.src) {
		l.kind, l.text = tokenEOF, ""
		return
	}
	c := l.src[l.off]
	switch class := classes[c]; {
	case class == classDigit:
		l.number()
	case class&(classLetter|classSymbol) != 0, c == '%' && classes[l.following()]&classWord != 0:
		l.finish(tokenIdent, l.identEnd())
	case c == '.' && classes[l.following()]&(classLetter|classSymbol) != 0:
		l.finish(tokenDot, l.wordEnd(l.off+1))
	case c == '.' && classes[l.following()] == classDigit:
		l.number()
	case c == '"':
		l.quoted()
	default:
		l.operator(c)
	}
}

func (l *lexer) finish(kind tokenKind, end int) {
	l.kind, l.text, l.off = kind, l.src[l.off:end], end
}

func (l *lexer) wordEnd(i int) int {
	for i < len(l.src) && classes[l.src[i]]&classWord != 0 {
		i++
	}
	return i
}

// identEnd includes the component of a special register: %tid.x.
func (l *lexer) identEnd() int {
	end := l.wordEnd(l.off + 1)
	if l.src[l.off] == '%' && end+1 < len(l.src) && l.src[end] == '.' && classes[l.src[end+1]] == classLetter {
		end = l.wordEnd(end + 1)
	}
	return end
}

// opcode extends the current identifier over its modifiers, "ld.global.L1::evict_last.u32", and returns the whole.
func (l *lexer) opcode() string {
	i := l.off
	for i < len(l.src) {
		switch c := l.src[i]; {
		case c == '.' || classes[c]&classWord != 0:
			i++
		case c == ':' && i+1 < len(l.src) && l.src[i+1] == ':':
			i += 2
		default:
			l.off = i
			l.text = l.src[l.start:i]
			return l.text
		}
	}
	l.off = i
	l.text = l.src[l.start:i]
	return l.text
}

// number takes a literal as far as it looks like one; literal.go finds out whether it is.
func (l *lexer) number() {
	kind, i := tokenInt, l.off
	hexFloat := l.src[i] == '0' && (l.following()|0x20 == 'f' || l.following()|0x20 == 'd')
	hex := l.src[i] == '0' && l.following()|0x20 == 'x'
	if hexFloat {
		l.finish(tokenFloat, l.wordEnd(i))
		return
	}
	for i < len(l.src) {
		c := l.src[i]
		switch {
		case classes[c]&(classLetter|classDigit) != 0:
			exponent := !hex && c|0x20 == 'e'
			if exponent {
				kind = tokenFloat
			}
			i++
			if exponent && i < len(l.src) && (l.src[i] == '+' || l.src[i] == '-') {
				i++
			}
		case c == '.' && !hex:
			kind = tokenFloat
			i++
		default:
			l.finish(kind, i)
			return
		}
	}
	l.finish(kind, i)
}

func (l *lexer) quoted() {
	for i := l.off + 1; i < len(l.src) && l.src[i] != '\n'; i++ {
		switch l.src[i] {
		case '\\':
			i++
		case '"':
			l.finish(tokenString, i+1)
			return
		}
	}
	l.finish(tokenBad, l.off+1)
}

func (l *lexer) operator(c byte) {
	switch d := l.following(); {
	case (c == '<' || c == '>' || c == '&' || c == '|') && d == c,
		(c == '<' || c == '>' || c == '=' || c == '!') && d == '=':
		l.finish(tokenOp, l.off+2)
	case c < 128 && strings.IndexByte("+-*/%~!<>&|^?:()[]{},;=@", c) >= 0:
		l.finish(tokenKind(c), l.off+1)
	default:
		l.finish(tokenBad, l.off+1)
	}
}
