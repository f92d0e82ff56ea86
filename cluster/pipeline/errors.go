package pipeline

import "fmt"

// InputError is invalid input in a file or flag.
type InputError struct {
	Where   string // the place in the file, or the flag; may be empty
	Problem string // what was found
	Want    string // what was expected; may be empty
}

func (e *InputError) Error() string {
	text := e.Problem
	if e.Where != "" {
		text = e.Where + ": " + text
	}
	if e.Want != "" {
		text += "; wanted " + e.Want
	}
	return text
}

// InfeasibleError is returned if there is no plan, with what is possible instead.
type InfeasibleError struct {
	Problem string
	Instead string // what would be possible; may be empty
}

func (e *InfeasibleError) Error() string {
	if e.Instead == "" {
		return e.Problem
	}
	return fmt.Sprintf("%s; %s", e.Problem, e.Instead)
}
