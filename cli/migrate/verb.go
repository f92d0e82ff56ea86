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
)

// Verb is --migrate.
var Verb = verb.Verb{
	Name:      "migrate",
	Arguments: "--pid PID --gpus LIST",
	Summary:   "move a running program to other GPUs",
	About: `Moves a running program, with all its processes, to other GPUs of this machine.

    pos_cli --migrate --pid 4711 --gpus 1
    pos_cli --migrate --pid 4711 --gpus 2,3

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

The last line has how long the program stood still: from the first call that had to wait until it
ran again. With --json it is one object: pid, gpus, stood_still_microseconds, total_microseconds,
copied_bytes (while it ran), rest_bytes (while it stood still), and notices.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var m migration
		flags.UintVar(&m.pid, "pid", 0, "`PID` of the program")
		flags.StringVar(&m.list, "gpus", "", "`LIST` of the GPUs that it gets: numbers or UUIDs")
		flags.StringVar(&m.list, "gpu", "", "the `GPU` that it gets, as --gpus")
		flags.StringVar(&m.below, "dir", "/dev/shm", "`DIR` for the copy")
		flags.BoolVar(&m.asJSON, "json", false, "print the result as JSON, and no progress")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			switch {
			case m.pid == 0 || m.pid > math.MaxInt32:
				return &verb.UsageError{Text: "name the program: --pid PID"}
			case m.list == "":
				return &verb.UsageError{Text: "name the GPUs that it gets: --gpus LIST"}
			}
			return run(ctx, to, &m)
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
	// Notices are what phosd wants the user to know.
	Notices []string `json:"notices"`
}

// run moves a program and prints the result.
func run(ctx context.Context, to verb.Streams, m *migration) (err error) {
	if m.client, err = api.Dial(api.Socket()); err != nil {
		return err
	}
	defer m.client.Close()
	if !m.asJSON {
		m.bar = terminal.NewBar(to.Err)
		defer m.bar.Clear()
	}
	m.result.Notices = []string{}
	begun := time.Now()
	if err := m.move(ctx); err != nil {
		return err
	}
	m.result.TotalMicroseconds = uint64(time.Since(begun).Microseconds())
	if m.asJSON {
		return json.NewEncoder(to.Out).Encode(m.result)
	}
	m.bar.Clear()
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
