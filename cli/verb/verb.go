package verb

import (
	"context"
	"errors"
	"flag"
	"io"
)

// Streams are where a verb writes.
type Streams struct {
	Out, Err io.Writer
}

// Verb is one thing that pos_cli does.
type Verb struct {
	// Name is said as --name, or, for words, as it is. A verb of a group is two words: "image list".
	Name string
	Word bool
	// Arguments are shown behind the name.
	Arguments string
	Summary   string
	// About is the text of help and of the manual page.
	About string
	// Prepare registers the verb's flags and returns what runs it.
	Prepare func(flags *flag.FlagSet) func(ctx context.Context, to Streams, arguments []string) error
}

// Invocation is how the verb is written on the command line.
func (v *Verb) Invocation() string {
	if v.Word {
		return v.Name
	}
	return "--" + v.Name
}

// ErrUsage is in the chain of every complaint about the command line.
var ErrUsage = errors.New("usage")

// UsageError is a wrong command line.
type UsageError struct{ Text string }

// Error says what is wrong.
func (e *UsageError) Error() string { return e.Text }

// Unwrap is ErrUsage.
func (e *UsageError) Unwrap() error { return ErrUsage }
