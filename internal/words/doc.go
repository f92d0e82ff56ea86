// Package words has numbers and values as messages show them, for packages below cli, which may not
// import cli/humanize, and for that one: one plural, one unit of bytes, one bound of what an error
// repeats of a wrong value.
//
// Read words.go.
package words
