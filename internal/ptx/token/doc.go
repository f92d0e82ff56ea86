// Package token splits PTX text into tokens. It can also skip a function body without tokenizing
// it.
//
// Read Lexer first. Package ptx interprets the tokens. Tested by internal/ptx.
package token
