package migrate

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
)

// Verb is --migrate.
var Verb = verb.Verb{
	Name:      "migrate",
	Arguments: "--pid PID {--gpus LIST | --to HOST}",
	Summary:   "move a running program to other GPUs, or to another machine",
	About: `Moves a running program, with all its processes, to other GPUs of this machine, or to another machine.

    pos_cli --migrate --pid 4711 --gpus 1
    pos_cli --migrate --pid 4711 --gpus 2,3
    pos_cli --migrate --pid 4711 --to ssh://user@host
    pos_cli --migrate --pid 4711 --to host --pause 300ms

# To other GPUs

The program is copied while it runs. It stands still while the rest is saved and its processes come
back; it goes on before its memory is loaded. It keeps its pids, its terminal and its pipes, and is
in the cgroup of pos_cli afterwards. A shell that waits for it is told that it has ended.

--gpus is as in --restore: the GPUs that the program gets, in the order in which it sees its own; as
many as it sees, or as it has memory on. Whether they have room for it, and run its code, is checked
while it still runs. If it cannot be restored there after all, it goes back to the GPUs that it had.

The copy needs as much memory as the program has on GPUs and in its processes; --dir puts it into a
directory below DIR instead, for example on a disk. It is removed at the end. If neither restore
works, it is kept, and its name is in the error.

Ctrl-C cancels until the program is saved for the second time: it runs on where it was. After that
it has no effect.

# To another machine

ssh starts a pos_cli there, which must be of the same version and in the PATH of commands that ssh
runs (--remote-pos-cli names another one), and must not ask for anything: use a key. phosd must run on
both machines. Root may move any program; other users their own, once root there has imported the key
of this machine (pos_cli help image key).

The program is saved here and sent in rounds while it runs: first all of it, then what has changed,
until the rest is small. Before the first bytes of its memory are sent, phosd there checks the GPUs
(--gpus names those that it gets there), its pids (--new-pids gives it others), libraries, files and
directories: a file that the program has open must be there. Then the program stands still, the rest
is sent and restored there, it ends here, and runs there. With --pause, a program that writes too fast
for so short a pause is not moved, and runs on here.

Both machines need as much memory as the program has, in --dir here and --remote-dir there. What it
wrote to a terminal or a pipe goes to phosd's log there. TCP connections to other programs cannot move.

Ctrl-C cancels until the program is restored there: it runs on here. If the connection breaks then,
this command finds out by another one whether the program runs there, and lets it go on here if not.
If it cannot find out, it says so and keeps the image: look there with pos_cli --status; if the
program runs, remove the image, if it does not, restore it. The image is in memory: do that before a
reboot.

The last line has how long the program stood still: from the first call that had to wait until it
ran again. With --json it is one object: pid, gpus, stood_still_microseconds, total_microseconds,
copied_bytes (while it ran), rest_bytes (while it stood still), and notices; after a move to another
machine also to, sent_bytes, sending_microseconds (the time that the rounds took to be sent), rounds,
and foreseen_microseconds, the estimate of how long it would stand still.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var m migration
		flags.UintVar(&m.pid, "pid", 0, "`PID` of the program")
		flags.StringVar(&m.list, "gpus", "", "`LIST` of the GPUs that it gets: numbers or UUIDs")
		flags.StringVar(&m.list, "gpu", "", "the `GPU` that it gets, as --gpus")
		flags.StringVar(&m.below, "dir", "/dev/shm", "`DIR` for the copy")
		flags.StringVar(&m.to, "to", "", "the other machine: `HOST`, USER@HOST or ssh://USER@HOST:PORT")
		flags.DurationVar(&m.pause, "pause", 0, "how long it may stand still, or is not moved to the other machine")
		flags.TextVar(&m.bandwidth, "bandwidth", config.Size(0),
			"send at most `BYTES` a second to the other machine while it runs, for example 500MiB; 0: no limit")
		flags.BoolVar(&m.newPids, "new-pids", false, "give it a pid namespace of its own there")
		flags.StringVar(&m.shell, "ssh", defaultShell, "`COMMAND` that runs commands there, with options")
		flags.StringVar(&m.posCLI, "remote-pos-cli", "pos_cli", "`PATH` of pos_cli there")
		flags.StringVar(&m.remoteDir, "remote-dir", "", "`DIR` for the image there, instead of /dev/shm")
		flags.BoolVar(&m.asJSON, "json", false, "print the result as JSON, and no progress")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			switch {
			case m.pid == 0 || m.pid > math.MaxInt32:
				return &verb.UsageError{Text: "name the program: --pid PID"}
			case m.to == "" && m.list == "":
				return &verb.UsageError{Text: "name the GPUs that it gets, --gpus LIST, or the machine to which it moves, --to HOST"}
			case m.to == "":
				return run(ctx, to, &m, m.move)
			}
			if m.pause < 0 {
				return &verb.UsageError{Text: "--pause is a time, for example 300ms"}
			}
			target, err := placeOf(m.to, m.shell, m.posCLI, m.remoteDir)
			if err != nil {
				return &verb.UsageError{Text: err.Error()}
			}
			m.result.To = m.to
			return run(ctx, to, &m, func(ctx context.Context) error { return m.moveAway(ctx, target) })
		}
	},
}

// result is what --migrate --json prints. Scripts read it: fields may be added, never renamed or
// removed.
type result struct {
	PID                    uint32   `json:"pid"`
	GPUs                   []uint32 `json:"gpus"`
	StoodStillMicroseconds uint64   `json:"stood_still_microseconds"`
	TotalMicroseconds      uint64   `json:"total_microseconds"`
	CopiedBytes            uint64   `json:"copied_bytes"`
	RestBytes              uint64   `json:"rest_bytes"`
	// To, and what follows, are of moves to another machine.
	To                   string `json:"to,omitempty"`
	SentBytes            uint64 `json:"sent_bytes,omitempty"`
	SendingMicroseconds  uint64 `json:"sending_microseconds,omitempty"`
	Rounds               int    `json:"rounds,omitempty"`
	ForeseenMicroseconds uint64 `json:"foreseen_microseconds,omitempty"`
	// Notices are what phosd wants the user to know.
	Notices []string `json:"notices"`
}

// run moves a program and prints the result.
func run(ctx context.Context, to verb.Streams, m *migration, move func(context.Context) error) (err error) {
	if m.client, err = api.Dial(api.Socket()); err != nil {
		return err
	}
	defer m.client.Close()
	if !m.asJSON {
		m.bar = terminal.NewBar(to.Err)
		defer m.bar.Clear()
	}
	m.result.Notices, m.result.GPUs = []string{}, []uint32{}
	begun := time.Now()
	if err := move(ctx); err != nil {
		return err
	}
	m.result.TotalMicroseconds = uint64(time.Since(begun).Microseconds())
	if m.asJSON {
		return json.NewEncoder(to.Out).Encode(m.result)
	}
	m.bar.Clear()
	if m.to != "" {
		_, err = fmt.Fprintf(to.Out, "pid %d runs on %s: stood still %s, took %s, sent %s in %s\n",
			m.result.PID, m.to, humanize.Microseconds(m.result.StoodStillMicroseconds),
			humanize.Microseconds(m.result.TotalMicroseconds), humanize.Bytes(m.result.SentBytes),
			humanize.Count(m.result.Rounds, "round and a rest", "rounds and a rest"))
		return err
	}
	_, err = fmt.Fprintf(to.Out, "pid %d runs on %s: stood still %s, took %s, copied %s and a rest of %s\n",
		m.result.PID, gpuNames(m.result.GPUs), humanize.Microseconds(m.result.StoodStillMicroseconds),
		humanize.Microseconds(m.result.TotalMicroseconds), humanize.Bytes(m.result.CopiedBytes),
		humanize.Bytes(m.result.RestBytes))
	return err
}

// gpuNames returns numbers as in "GPU 1" or "GPUs 2,3".
func gpuNames(numbers []uint32) string {
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
	if len(numbers) == 1 {
		return "GPU " + text
	}
	return "GPUs " + text
}
