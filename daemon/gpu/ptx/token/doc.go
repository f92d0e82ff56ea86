// Package token cuts PTX text into words, and finds the end of a function without doing so.
//
// Lexer is the type to read first. What the words mean is package ptx's.
package token
