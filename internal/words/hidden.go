package words

import "unicode"

// Hidden reports whether a character of a text is not seen where the text is shown: it controls a
// terminal, begins a line, changes the direction of writing, or has no picture at all. Names that
// users choose have none of them, and other users' texts are shown without.
func Hidden(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
