package pipeline

import "fmt"

// InputError is something in a file or a flag that cannot be planned with.
type InputError struct {
	Where   string // the file's place or the flag; may be empty
	Problem string // what is there
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

// InfeasibleError says that there is no plan, and what there is instead.
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
