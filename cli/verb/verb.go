package verb

import (
	"context"
	"errors"
	"flag"
	"io"
)

// Streams are the outputs of a verb.
type Streams struct {
	Out, Err io.Writer
}

// Verb is one thing that pos_cli does.
type Verb struct {
	// Name is written as --name, or, if Word is set, as it is. A verb of a group is two words:
	// "image list".
	Name string
	Word bool
	// Command is set if the arguments are a command with flags of its own: the verb's flags end at
	// the first word, or at "--".
	Command bool
	// Arguments follow the name in help texts.
	Arguments string
	Summary   string
	// About is the text of help and of the manual page.
	About string
	// Values are what flags can take, by name, for completion.
	Values map[string][]string
	// Setup registers the verb's flags and returns the function that runs it.
	Setup func(flags *flag.FlagSet) func(ctx context.Context, to Streams, arguments []string) error
}

// Invocation returns the verb as it is written on the command line.
func (v *Verb) Invocation() string {
	if v.Word {
		return v.Name
	}
	return "--" + v.Name
}

// ErrUsage is in the chain of every error about the command line.
var ErrUsage = errors.New("usage")

// UsageError is a wrong command line.
type UsageError struct{ Text string }

// Error returns the text.
func (e *UsageError) Error() string { return e.Text }

// Unwrap returns ErrUsage.
func (e *UsageError) Unwrap() error { return ErrUsage }
