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

// Save saves a tree as its owner. If ctx ends, the save is undone.
func Save(ctx context.Context, as Owner, order SaveOrder) (Saved, error) {
	text, err := json.Marshal(order)
	if err != nil {
		return Saved{}, err
	}
	command := as.Command(ctx, SaveRole)
	command.Stdin = bytes.NewReader(text)
	var said, problems bytes.Buffer
	command.Stdout, command.Stderr = &said, &problems
	err = command.Run()
	var saved Saved
	if parsed := json.Unmarshal(said.Bytes(), &saved); parsed == nil && saved.Error != "" {
		return Saved{}, fmt.Errorf("%w: %s", ErrNotSaved, saved.Error)
	} else if parsed == nil {
		return saved, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return Saved{}, fmt.Errorf("%w: %w: %.500s", ErrNotSaved, err, problems.String())
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
