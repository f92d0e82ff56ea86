package training

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/launches"
	"github.com/phos-gpu/phos/cli/cluster/reach"
	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/pipeline/progress"
)

const about = `Shows a training with phos.pipeline: its step, its pipelines, which rank has which layers, how much
of a step each rank computes, what the loss of each rank would do, and what has happened so far.

    phos pipeline train                     # a launch, by its id, number or name
    phos pipeline 10.0.0.7:29500            # any other training: a rank's machine and MASTER_PORT
    phos pipeline --svg iteration.svg train # the slowest pipeline, pass by pass
    phos pipeline --json train | jq '.losses[] | select(.layers != null)'
    phos pipeline --kill 3 train            # kills rank 3, to see how the others go on
    phos pipeline --lose 3 --why "Xid 79" 10.0.0.7:29500   # the others go on without rank 3

COMPUTES is the part of the last step in which a rank has computed; otherwise it waited for others.
Of what happened before a rank joined, that rank knows nothing; another one may answer next time.

If a rank is lost, the others copy its layers from ranks that have them too, and go on with the
step. A rank whose loss would leave no copy of some layer is marked. docs/training.md says more.`

// noRank is not a rank that there can be.
const noRank = -1

// Verbs returns the verbs.
func Verbs() []*verb.Verb {
	return []*verb.Verb{{
		Name: "pipeline", Word: true, Arguments: "ID|HOST:PORT", Summary: "show a training in pipelines, or kill a rank of it",
		About: about, Setup: setup,
	}}
}

// options are the flags.
type options struct {
	json       bool
	svg        string
	kill, lose int
	why        string
}

// setup defines the flags.
func setup(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	o := &options{}
	flags.BoolVar(&o.json, "json", false, "print JSON: what the training says, and losses")
	flags.StringVar(&o.svg, "svg", "", "`FILE` for a chart: an iteration of the slowest pipeline")
	flags.IntVar(&o.kill, "kill", noRank, "kill the process of a `RANK`")
	flags.IntVar(&o.lose, "lose", noRank, "let the others go on without a `RANK`, which lives: ask at another one's door")
	flags.StringVar(&o.why, "why", "it was declared lost", "the `REASON` for --lose, which all ranks log")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		if len(arguments) != 1 || arguments[0] == "" {
			return &verb.UsageError{Text: "name one training: phos pipeline ID, or phos pipeline HOST:PORT"}
		}
		if strings.Contains(arguments[0], ":") {
			return o.ofDoor(ctx, to, arguments[0])
		}
		return o.ofLaunch(ctx, to, arguments[0])
	}
}

// ofDoor shows the training that answers at an address.
func (o *options) ofDoor(ctx context.Context, to verb.Streams, door string) error {
	if o.lose != noRank {
		return progress.Lose(ctx, door, o.lose, o.why)
	}
	text, err := progress.Ask(ctx, door)
	if err != nil {
		return err
	}
	s, err := progress.Read(text)
	if err != nil {
		return err
	}
	if o.kill == noRank {
		return o.show(to, s)
	}
	rank, err := s.Find(o.kill)
	if err != nil {
		return err
	}
	return fmt.Errorf("--kill kills ranks of launches; here, end rank %d yourself: on %s, kill -9 %d",
		rank.Rank, humanize.Printable(rank.Host), rank.PID)
}

// ofLaunch shows the training of a launch.
func (o *options) ofLaunch(ctx context.Context, to verb.Streams, id string) error {
	if o.lose != noRank {
		return &verb.UsageError{Text: "--lose takes the address of a rank's door, HOST:PORT; --kill takes a launch"}
	}
	client, err := reach.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	reply, err := client.Launches.Training(ctx, &api.GetRequest{Id: id})
	if err != nil {
		return err
	}
	for _, notice := range reply.GetNotices() {
		fmt.Fprintf(to.Err, "phos: %s\n", humanize.Printable(notice))
	}
	if reply.GetStatus() == nil {
		return errors.New("no node knows how the training is")
	}
	s, err := progress.Read(reply.GetStatus())
	if err != nil {
		return err
	}
	if o.kill != noRank {
		return (&launched{client, id, s}).kill(ctx, to, o.kill)
	}
	const old = 20 * time.Second
	if age := time.Duration(reply.GetAgeMs()) * time.Millisecond; age > old {
		fmt.Fprintf(to.Err, "phos: the training said this %s ago, and nothing since\n", humanize.Age(age))
	}
	return o.show(to, s)
}

// launched is the training of a launch.
type launched struct {
	client *api.Client
	id     string
	status *progress.Status
}

// kill kills the process of a rank, by a command beside it.
func (l *launched) kill(ctx context.Context, to verb.Streams, rank int) error {
	found, err := l.status.Find(rank)
	if err != nil {
		return err
	}
	if found.PID <= 1 {
		return fmt.Errorf("rank %d says that it is process %d, which is not killed", rank, found.PID)
	}
	start := &api.ExecStart{
		What:    fmt.Sprintf("%s/%s.0", l.id, found.Replica),
		Command: [][]byte{[]byte("kill"), []byte("-KILL"), []byte(fmt.Sprint(found.PID))},
	}
	// The command may be killed with what it has killed.
	const killed = 128 + int(syscall.SIGKILL)
	var failed *launches.ExecError
	err = launches.Execute(ctx, l.client, to, start, false)
	if errors.As(err, &failed) && failed.Code != killed && failed.Text == "" {
		return fmt.Errorf("rank %d was not killed: kill has failed on process %d of %s", rank, found.PID,
			humanize.Printable(found.Host))
	}
	if err != nil && (failed == nil || failed.Code != killed) {
		return err
	}
	fmt.Fprintf(to.Err, "phos: rank %d of %s was killed, process %d on %s\n", rank, humanize.Printable(l.id), found.PID,
		humanize.Printable(found.Host))
	return nil
}

// show prints a training.
func (o *options) show(to verb.Streams, s *progress.Status) error {
	if s.Plan == nil {
		return errors.New("the training has no plan yet: it begins")
	}
	if o.svg != "" {
		if err := writeChart(o.svg, s); err != nil {
			return err
		}
	}
	losses, err := s.Next()
	if err != nil {
		fmt.Fprintf(to.Err, "phos: %v\n", err)
	}
	if o.json {
		return view.JSON(to.Out, struct {
			*progress.Status
			Copies []progress.Copies `json:"copies"`
			Losses []progress.Loss   `json:"losses"`
		}{s, s.Copies(), losses})
	}
	return printAll(to.Out, s, losses)
}
