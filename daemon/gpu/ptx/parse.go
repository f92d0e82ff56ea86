package ptx

// parser holds the state of one Parse.
type parser struct {
	lex    lexer
	errors ErrorList
	bad    bool // the current statement has an error: say no more until in step again
}
