package launches

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

const aboutExec = `Runs a command beside a process of a launch: on its node, as its owner, in its working directory,
with its environment (and so under phos, with its GPUs), its namespaces and its limits.

    phos exec train -- nvidia-smi
    phos exec -it train/main.0 -- bash
    phos exec -i train/main.2.0 -- tar xf - < fix.tar

If ID means several processes that run, they are listed, and nothing is run. The command is executed
without a shell; sh -c 'COMMANDS' runs one.

Output and errors come as the command prints them. Signals that phos gets are sent to the command:
SIGINT (Ctrl-C), SIGTERM, SIGQUIT, SIGUSR1 and SIGUSR2. The exit status is the command's, 128 and
the number of the signal that ended it, 127 if there is no such program, and 126 if it cannot be
executed. If phos itself fails, it is 255.

-i passes standard input on. -t gives the command a terminal, with the size of the caller's, in
which keys reach the command as they are: Ctrl-C is the command's. -it does both.

What the command has started ends with it. It is killed when the process ends, and when phos exec or
the connection to the cluster does: nothing is left on the node. To keep something running, launch
it. phos events shows which commands have run beside a launch.
` + naming

// execVerb returns the verb that runs a command beside a process.
func execVerb() *verb.Verb {
	return &verb.Verb{
		Name: "exec", Word: true, Command: true, Arguments: "[-it] ID[/job[.replica[.process]]] -- CMD ...",
		Summary: "run a command beside a process of a launch", About: aboutExec, Setup: setupExec,
	}
}

// setupExec defines the flags of exec.
func setupExec(flags *flag.FlagSet) run {
	input := flags.Bool("stdin", false, "pass standard input on")
	flags.BoolVar(input, "i", false, "the same as --stdin")
	asTerminal := flags.Bool("tty", false, "give the command a terminal")
	flags.BoolVar(asTerminal, "t", false, "the same as --tty")
	both := flags.Bool("it", false, "the same as -i -t")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		if len(arguments) > 1 && arguments[1] == "--" {
			arguments = append(arguments[:1:1], arguments[2:]...)
		}
		if len(arguments) < 2 || arguments[0] == "" || arguments[0] == "--" {
			return &verb.UsageError{Text: "name the process and the command: phos exec ID -- CMD ..."}
		}
		start := &api.ExecStart{What: arguments[0], Terminal: *asTerminal || *both}
		for _, word := range arguments[1:] {
			start.Command = append(start.Command, []byte(word))
		}
		return use(func(c *api.Client) error {
			return Execute(ctx, c, to, start, *input || *both)
		})
	}
}

// ExecError is how a command has ended that did not succeed, or why it did not run to its end.
type ExecError struct {
	Code int
	// Text is empty if there is nothing to say: the command has said it.
	Text string
}

func (e *ExecError) Error() string { return e.Text }

// Status returns the exit status.
func (e *ExecError) Status() int { return e.Code }

// statusFailed is the exit status if phos itself fails, as with ssh.
const statusFailed = 255

// Execute runs a command, and returns how it has ended.
func Execute(ctx context.Context, c *api.Client, to verb.Streams, start *api.ExecStart, input bool) error {
	// A stream is not repeated: Get, which is, has found the leader.
	id, _, _ := strings.Cut(start.GetWhat(), "/")
	if _, err := c.Launches.Get(ctx, &api.GetRequest{Id: id}); err != nil {
		return execFailure(start, err)
	}
	x := &execSession{to: to, start: start}
	if input {
		x.input = os.Stdin
	}
	if start.GetTerminal() {
		start.Size, start.Term = windowSize(), os.Getenv("TERM")
		reset, err := terminal.SetRaw(os.Stdin)
		if err != nil {
			return execFailure(start, err)
		}
		defer func() { _ = reset() }() // the terminal is gone, or as it was
	}
	end, err := x.run(ctx, c.Launches)
	switch {
	case err != nil:
		return execFailure(start, err)
	case end.GetError() != "":
		return &ExecError{statusOf(end), fmt.Sprintf("%s: %s", start.GetWhat(), end.GetError())}
	case statusOf(end) != 0:
		return &ExecError{Code: statusOf(end)}
	}
	return nil
}

// execFailure says why a command did not run, or was ended.
func execFailure(start *api.ExecStart, err error) error {
	text := fmt.Sprintf("%s: %v", humanize.Printable(start.GetWhat()), err)
	if errors.Is(err, errCutOff) {
		text += "; the command was killed, if it ran"
	}
	return &ExecError{statusFailed, text}
}

// statusOf returns the exit status of a command.
func statusOf(end *api.ExecEnd) int {
	if end.GetSignal() != 0 {
		const signalled = 128
		return signalled + int(end.GetSignal())
	}
	return int(end.GetCode())
}
