// Package ignore reads files in the form of .gitignore, and says which paths they leave out: the
// rules of gitignore(5), of which the last that matches holds.
//
// Read rules.go, then match.go. git check-ignore is the truth for its tests.
package ignore
