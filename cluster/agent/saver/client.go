package saver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// self is this program, whatever has become of its file since it was started.
const self = "/proc/self/exe"

// Owner is the user whose rights a save has.
type Owner struct {
	UID, GID uint32
	Groups   []uint32
}

// Command returns a command that is the agent's program in a role, with the rights of the owner. It
// is killed when the agent ends, or ctx does.
func (o Owner) Command(ctx context.Context, role ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, self, role...)
	command.Args[0], command.Dir, command.Env, command.WaitDelay = os.Args[0], "/", []string{}, time.Second
	command.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: o.UID, Gid: o.GID, Groups: o.Groups},
	}
	return command
}

// ErrNotSaved means that a tree was not saved, and runs on.
var ErrNotSaved = errors.New("not saved")

// Save saves a tree as its owner. If ctx ends, the save is undone. meet is called only for an order
// with Together.
func Save(ctx context.Context, as Owner, order SaveOrder, meet Meet) (Saved, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	command := as.Command(ctx, SaveRole)
	var problems bytes.Buffer
	command.Stderr = &problems
	in, err := command.StdinPipe()
	if err != nil {
		return Saved{}, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return Saved{}, err
	}
	if err := command.Start(); err != nil {
		return Saved{}, fmt.Errorf("%w: %w", ErrNotSaved, err)
	}
	d := dialog{in: json.NewEncoder(in), lines: make(chan told)}
	go d.read(json.NewDecoder(out))
	saved, refused := d.talk(ctx, order, meet)
	if saved == nil {
		cancel(refused)
	}
	ended := command.Wait()
	switch {
	case refused != nil:
		err = refused
	case saved != nil && saved.Error != "":
		return Saved{}, fmt.Errorf("%w: %s", ErrNotSaved, saved.Error)
	case saved != nil:
		return *saved, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		err = ended
	}
	if problems.Len() > 0 {
		err = fmt.Errorf("%w: %.500s", err, problems.String())
	}
	return Saved{}, fmt.Errorf("%w: %w", ErrNotSaved, err)
}

// dialog is what an agent and a save say to each other.
type dialog struct {
	in *json.Encoder
	// lines are those of the save. It is closed at their end.
	lines chan told
}

// read reads what the save says, until its end.
func (d dialog) read(out *json.Decoder) {
	defer close(d.lines)
	for {
		var said told
		if out.Decode(&said) != nil {
			return
		}
		d.lines <- said
	}
}

// undoTime is how long a save may take to be undone by phosd before it is killed.
const undoTime = 20 * time.Second

// talk gives a save its order, and answers it until it has ended. It returns what the save has said
// in the end; nil: nothing. The error is that of meet.
func (d dialog) talk(ctx context.Context, order SaveOrder, meet Meet) (saved *Saved, refused error) {
	_ = d.in.Encode(order) // a save that has ended says nothing
	var verdicts chan verdict
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a meet that waits
	var late <-chan time.Time
	for {
		select {
		case said, open := <-d.lines:
			switch {
			case !open:
				return saved, refused
			case said.Arrival == nil:
				saved = said.Saved
				cancel()
			default:
				verdicts = make(chan verdict, 1)
				go func(to chan<- verdict) {
					again, err := meet(ctx, *said.Arrival)
					to <- verdict{again, err != nil, err}
				}(verdicts)
			}
		case answer := <-verdicts:
			verdicts = nil
			if answer.Cancel && saved == nil {
				refused, late = answer.err, time.After(undoTime)
			}
			_ = d.in.Encode(answer)
		case <-late:
			return nil, refused // the caller kills it
		}
	}
}

// RestoreCommand returns the command that a supervisor executes in place of the process that it
// brings back.
func RestoreCommand(order RestoreOrder) ([]string, error) {
	text, err := json.Marshal(order)
	return []string{self, RestoreRole, string(text)}, err
}

// ParseRestore returns the order in a command that RestoreCommand has made.
func ParseRestore(command []string) (order RestoreOrder, found bool) {
	if len(command) != 3 || command[0] != self || command[1] != RestoreRole {
		return order, false
	}
	return order, json.Unmarshal([]byte(command[2]), &order) == nil
}

// ReadRestored reads what a restore has told. It returns false if it has told nothing yet.
func ReadRestored(tell string) (told Restored, found bool) {
	text, err := os.ReadFile(tell)
	return told, err == nil && json.Unmarshal(text, &told) == nil
}
