package pipeline

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/internal/words"
)

// The most characters of the parts of an error: a file may be hostile, or not a profile at all.
const (
	maxFile    = 60
	maxWhere   = 50
	maxProblem = 120
)

// InputError is invalid input in a file or flag.
type InputError struct {
	File    string // empty for a flag, or if it is not known
	Where   string // the place in the file, or the flag; may be empty
	Problem string // what was found
	Want    string // what was expected; may be empty
}

// Error returns the place, the problem and what was expected, in at most words.MaxError characters.
func (e *InputError) Error() string {
	text := words.Cut(e.Problem, maxProblem)
	if e.Where != "" {
		text = words.Cut(e.Where, maxWhere) + ": " + text
	}
	if e.File != "" {
		text = words.Tail(e.File, maxFile) + ": " + text
	}
	if e.Want != "" {
		text += "; wanted " + e.Want
	}
	return words.Cut(text, words.MaxError)
}

// InFile returns an error about a file's content with the file.
func InFile(path string, err error) error {
	var input *InputError
	if !errors.As(err, &input) {
		return fmt.Errorf("%s: %w", words.Tail(path, maxFile), err)
	}
	found := *input
	found.File = path
	return &found
}

// InfeasibleError is returned if there is no plan, with what is possible instead.
type InfeasibleError struct {
	Problem string
	Instead string // what would be possible; may be empty
}

// Error returns both in at most words.MaxError characters, of which Instead is the last to be cut.
func (e *InfeasibleError) Error() string {
	if e.Instead == "" {
		return words.Cut(e.Problem, words.MaxError)
	}
	instead := words.Cut(e.Instead, maxProblem)
	return words.Cut(e.Problem, words.MaxError-len([]rune(instead))-len("; ")) + "; " + instead
}
