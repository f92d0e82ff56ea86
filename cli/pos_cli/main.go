package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/phos-gpu/phos/daemon/rpc"
)

// Exit statuses; the manual page explains them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoDaemon = 3
)

// errUsage is in the chain of every complaint about the command line.
var errUsage = errors.New("usage")

// usageError is a wrong command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func (e *usageError) Unwrap() error { return errUsage }

// streams are where a verb writes.
type streams struct {
	out, err io.Writer
}

// verb is one thing that pos_cli does.
type verb struct {
	// name is said as --name, or, for words, as it is. A verb of a group is two words: "image list".
	name string
	word bool
	// arguments are shown behind the name.
	arguments string
	summary   string
	// about is the text of help and of the manual page.
	about string
	// prepare registers the verb's flags and returns what runs it.
	prepare func(flags *flag.FlagSet) func(ctx context.Context, to streams, arguments []string) error
}

// spoken is how the verb is written on the command line.
func (v *verb) spoken() string {
	if v.word {
		return v.name
	}
	return "--" + v.name
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// What gRPC says of a phosd that is lost says nothing to a person.
var (
	// errLost means that phosd has ended in the middle of a request.
	errLost = errors.New("phosd ended before it had answered; what it had not completed is taken back, and programs run on")
	// errMute means that somebody has the socket and says nothing.
	errMute = errors.New("phosd does not answer: it is stopped or stuck, and its log may say why; programs run on")
)

// lost says it in words, where the connection was there.
func lost(err error) error {
	received := (*rpc.Error)(nil)
	switch {
	case !errors.As(err, &received):
		return err
	case strings.Contains(received.Text, "reading server preface") && strings.Contains(received.Text, net.ErrClosed.Error()):
		return errMute // gRPC has hung up
	}
	return errLost
}

// heeded are the signals that end a command, or are a restored program's. What it was started to ignore, by nohup or in the
// background of a script, it ignores.
func heeded() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, each := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(each) {
			signals = append(signals, each)
		}
	}
	return signals
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), heeded()...)
	defer cancel()
	name, err := runVerb(ctx, args, streams{out: stdout, err: stderr})
	var ended *programEnded
	switch {
	case errors.As(err, &ended):
		return ended.status
	case err == nil:
		return exitDone
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return exitUsage
	case errors.Is(err, rpc.ErrNoDaemon):
		fmt.Fprintf(stderr, "%s: %v\n", name, lost(err))
		return exitNoDaemon
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return exitFailed
}

// runVerb returns the name to begin a complaint with.
func runVerb(ctx context.Context, args []string, to streams) (string, error) {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help"}, args[0]) {
		args = append([]string{"help"}, args[min(1, len(args)):]...)
	}
	chosen, rest, err := choose(args)
	if err != nil {
		return "pos_cli", err
	}
	if chosen == &helpVerb {
		// "help --stop" means the verb and not a flag.
		for i := range rest {
			rest[i] = trimDashes(rest[i])
		}
	}
	name := "pos_cli " + chosen.spoken()
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	act := chosen.prepare(flags)
	words, err := parse(flags, rest)
	if errors.Is(err, flag.ErrHelp) {
		return name, helpOn(to.out, chosen)
	} else if err != nil {
		return name, &usageError{fmt.Sprintf("%s; see: pos_cli help %s", plainly(flags, err), chosen.name)}
	}
	if (!chosen.word || chosen.arguments == "") && len(words) > 0 {
		return name, &usageError{fmt.Sprintf("unexpected argument %q; see: pos_cli help %s", words[0], chosen.name)}
	}
	return name, act(ctx, to, words)
}

// parse takes flags wherever they stand among the words.
func parse(flags *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return words, nil
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
}

var (
	wrongValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-([a-z-]+): (.*)$`)
	lacksValue = regexp.MustCompile(`^flag needs an argument: -([a-z-]+)$`)
	noFlag     = regexp.MustCompile(`^flag provided but not defined: -(.*)$`)
)

// plainly says what is wrong with flags as a person would: package flag knows neither what a value means nor how they are written
// here.
func plainly(flags *flag.FlagSet, err error) string {
	if match := wrongValue.FindStringSubmatch(err.Error()); match != nil {
		placeholder, meaning := flag.UnquoteUsage(flags.Lookup(match[2]))
		if placeholder == "" {
			placeholder = "true or false"
		}
		text := fmt.Sprintf("--%s takes %s (%s), and not %s", match[2], placeholder, meaning, match[1])
		if why := strings.TrimPrefix(match[3], "invalid configuration: "); why != "parse error" {
			text += ": " + why
		}
		return text
	}
	if match := lacksValue.FindStringSubmatch(err.Error()); match != nil {
		placeholder, meaning := flag.UnquoteUsage(flags.Lookup(match[1]))
		return fmt.Sprintf("--%s lacks its %s (%s)", match[1], placeholder, meaning)
	}
	if match := noFlag.FindStringSubmatch(err.Error()); match != nil {
		return fmt.Sprintf("there is no flag --%s", strings.TrimLeft(match[1], "-"))
	}
	return err.Error()
}

// choose finds the one verb among the arguments, wherever a flag-like one stands, and returns the others.
func choose(args []string) (*verb, []string, error) {
	if len(args) > 1 {
		if chosen := find(args[0] + " " + args[1]); chosen != nil {
			return chosen, slices.Clone(args[2:]), nil
		}
	}
	if chosen := find(args[0]); chosen != nil && chosen.word {
		return chosen, slices.Clone(args[1:]), nil
	}
	for i, arg := range args {
		name, dashed := strings.CutPrefix(arg, "--")
		if !dashed {
			continue
		}
		if chosen := find(name); chosen != nil && (!chosen.word || name == "help") {
			return chosen, slices.Delete(slices.Clone(args), i, i+1), nil
		}
		if about, known := laterVerbs[name]; known {
			return nil, nil, fmt.Errorf("--%s (%s): %w in version %s", name, about, rpc.ErrNotBuilt, rpc.Version)
		}
	}
	// Other programs' verbs have no dashes, and one's own may be mistyped as such.
	if chosen := find(trimDashes(args[0])); chosen != nil {
		return nil, nil, &usageError{fmt.Sprintf("%q is written %s", args[0], chosen.spoken())}
	}
	return nil, nil, &usageError{fmt.Sprintf("no verb in %q; see: pos_cli --help", strings.Join(args, " "))}
}

func find(name string) *verb {
	for _, each := range verbs() {
		if each.name == name {
			return each
		}
	}
	return nil
}

// givingUp is what is said while phosd takes something back.
const givingUp = "phosd takes it back; to leave without waiting for that, interrupt again"

// errLeft means that the user did not wait until something was taken back.
var errLeft = errors.New("cancelled, without waiting for the end")

// onGivingUp tells phosd when the context ends, because of a signal, and leaves it at a second one. What it returns must be called
// when phosd's answer is there.
func onGivingUp(ctx context.Context, leave context.CancelCauseFunc, tell func() error) (answered func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		again := make(chan os.Signal, 1)
		signal.Notify(again, heeded()...)
		defer signal.Stop(again)
		if tell() != nil {
			return // the stream has ended, and whoever receives knows why
		}
		select {
		case <-again:
			leave(errLeft)
		case <-over:
		}
	})
	return func() {
		stop()
		close(over)
	}
}
