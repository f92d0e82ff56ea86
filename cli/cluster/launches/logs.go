package launches

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

const aboutLogs = `Prints what the processes of a launch have printed, in the order of time: standard output on standard
output, standard error on standard error. If the launch has more than one process, each line begins
with the name of its own. /job, /job.replica and /job.replica.process choose some of them.

    phos logs -f train
    phos logs --tail 20 train/main.0
    phos logs --timestamps 42 | less

With -f it goes on until the launch has ended. On a terminal, characters that control it are shown
as a question mark; in a pipe, lines are what the program printed.
` + naming

// logsVerb prints a log.
func logsVerb(flags *flag.FlagSet) run {
	options := &LogOptions{Follow: followFlag(flags, "go on until the launch has ended")}
	flags.UintVar(&options.Tail, "tail", 0, "only the last `N` lines of each process")
	flags.BoolVar(&options.Timestamps, "timestamps", false, "begin each line with its time")
	return onOne("logs", func(ctx context.Context, c *api.Client, to verb.Streams, what string) error {
		return Logs(ctx, c, to, what, *options)
	})
}

// LogOptions say how a log is printed.
type LogOptions struct {
	Follow     *bool
	Tail       uint
	Timestamps bool
}

// Logs prints the log of a launch. When the controller goes away, it goes on with the next one.
func Logs(ctx context.Context, c *api.Client, to verb.Streams, what string, options LogOptions) error {
	p := &logPrinter{to: to, timestamps: options.Timestamps, atLast: map[string]bool{}}
	id, selected, _ := strings.Cut(what, "/")
	reply, err := c.Launches.Get(ctx, &api.GetRequest{Id: id})
	if err != nil {
		return fmt.Errorf("logs %s: %w", id, err)
	}
	p.named = strings.Count(selected, ".") < 2 && processes(reply) > 1
	request := &api.LogsRequest{What: what, Follow: *options.Follow, Tail: uint32(options.Tail)}
	for {
		err := p.print(ctx, c, request)
		if ctx.Err() != nil || !errors.Is(err, api.ErrUnavailable) || !p.progress {
			return endOf(ctx, err)
		}
		p.progress, p.resumed = false, true
		request.Tail, request.SinceUnixNs = 0, p.last
	}
}

// endOf returns no error for a log that the user has left.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// processes returns how many processes a launch has, if that is at most one for each replica.
func processes(reply *api.GetReply) int {
	return max(len(reply.GetLaunch().GetReplicas()), bytes.Count(reply.GetSpec(), []byte(`"command"`)))
}

// logPrinter prints lines.
type logPrinter struct {
	to         verb.Streams
	timestamps bool
	named      bool
	// last is the time of the last line, and atLast are the lines of that time: they come again when
	// the log is asked for from there, which resumed says.
	last    int64
	atLast  map[string]bool
	resumed bool
	// progress means that the stream has answered.
	progress bool
}

// print prints one stream.
func (p *logPrinter) print(ctx context.Context, c *api.Client, request *api.LogsRequest) error {
	stream, err := c.Launches.Logs(ctx, request)
	for err == nil {
		var reply *api.LogsReply
		if reply, err = stream.Recv(); err != nil {
			break
		}
		p.progress = true
		if notice := reply.GetNotice(); notice != "" {
			fmt.Fprintf(p.to.Err, "phos: %s\n", humanize.Printable(notice))
		}
		for _, line := range reply.GetLines() {
			if err := p.line(line); err != nil {
				return err
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// line prints a line unless it was printed before the stream was opened again.
func (p *logPrinter) line(l *api.LogLine) error {
	key := fmt.Sprintf("%s.%d.%d/%t/%s", l.GetJob(), l.GetReplica(), l.GetProcess(), l.GetStderr(), l.GetText())
	switch {
	case l.GetUnixNs() > p.last:
		p.last, p.atLast, p.resumed = l.GetUnixNs(), map[string]bool{key: true}, false
	case l.GetUnixNs() == p.last && p.atLast[key] && p.resumed:
		return nil
	default:
		p.atLast[key] = true
	}
	if n := l.GetDropped(); n > 0 {
		fmt.Fprintf(p.to.Err, "phos: %s of %s.%d missing here: %s\n", humanize.Count(int(n), "line", "lines"),
			humanize.Printable(l.GetJob()), l.GetReplica(), humanize.Printable(string(l.GetText())))
		return nil
	}
	out := p.to.Out
	if l.GetStderr() {
		out = p.to.Err
	}
	_, err := fmt.Fprintf(out, "%s%s%s", p.prefix(l), safe(out, l.GetText()), ending(l))
	return err
}

// prefix returns what stands before a line.
func (p *logPrinter) prefix(l *api.LogLine) string {
	prefix := ""
	if p.timestamps {
		prefix = view.Clock(l.GetUnixNs()) + " "
	}
	if p.named {
		prefix += fmt.Sprintf("%s.%d.%d: ", humanize.Printable(l.GetJob()), l.GetReplica(), l.GetProcess())
	}
	return prefix
}

// ending returns what ends a line. One that goes on is not ended, unless others stand between.
func ending(l *api.LogLine) string {
	if l.GetPartial() {
		return ""
	}
	return "\n"
}

// safe returns a line as it may be printed: to a terminal, without what controls it.
func safe(to io.Writer, text []byte) []byte {
	if file, isFile := to.(*os.File); isFile && terminal.IsTerminal(file) {
		return []byte(humanize.Printable(strings.ReplaceAll(string(text), "\t", "    ")))
	}
	return text
}
