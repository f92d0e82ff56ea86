package launch

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is returned for a description that no cluster can run.
var ErrInvalid = errors.New("invalid launch")

// FieldError says what is wrong with one field.
type FieldError struct {
	// Field is its path, as jobs[0].processes[1].command.
	Field string
	// Value is what it holds, shortened; empty if that says nothing.
	Value string
	// Problem says what is wrong, or what would be right.
	Problem string
}

func (e FieldError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Problem
	}
	return fmt.Sprintf("%s: %s: %s", e.Field, e.Value, e.Problem)
}

// Errors are all that is wrong with a description.
type Errors []FieldError

// maxShown is how many errors the text has.
const maxShown = 8

func (e Errors) Error() string {
	var lines []string
	for i, each := range e {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(e)-maxShown))
			break
		}
		lines = append(lines, each.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns ErrInvalid.
func (e Errors) Unwrap() error { return ErrInvalid }

// maxValue is how much of a value an error repeats.
const maxValue = 60

// shown returns a value for an error: quoted if it is text, and short.
func shown(value any) string {
	var text string
	switch v := value.(type) {
	case string:
		if len(v) > maxValue {
			v = v[:maxValue] + "…"
		}
		return fmt.Sprintf("%q", v)
	case map[string]any, []any:
		return ""
	default:
		text = fmt.Sprint(v)
	}
	if len(text) > maxValue {
		text = text[:maxValue] + "…"
	}
	return text
}
