package ckpt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// FailpointsVariable is the environment variable that makes steps fail, for tests:
// "cut=kill,commit=error,freeze=until:/tmp/go".
const FailpointsVariable = "PHOS_FAILPOINTS"

// ErrFailpoint is why a step failed that was told to.
var ErrFailpoint = errors.New("failpoint")

// Failpoints say what happens just before a step, by the step's name. The zero value does nothing.
type Failpoints struct {
	actions map[string]action
}

// SaveSteps are the names of all steps of a checkpoint, in their order. "publish" is only taken on
// the way to a stream.
func SaveSteps() []string {
	return []string{
		"inspect", "begin", "precopy", "pause", "quiesce", "freeze", "cut", "hold", "go-on", "write", "finish", "commit", "publish", "end",
	}
}

// BringSteps are the names of all steps of a restore, in their order.
func BringSteps() []string {
	return []string{"prepare", "unpack", "workers", "ready", "restore-hold", "processes", "attach", "keep"}
}

// action is done once a step is reached.
type action struct {
	kind string // "kill", "error" or "until"
	file string // which "until" waits for
}

// ParseFailpoints reads a list of NAME=ACTION with commas between. The actions are kill (of this
// process, as by kill -9), error, and until:FILE, which waits for a file with that name.
func ParseFailpoints(text string) (Failpoints, error) {
	points := Failpoints{actions: make(map[string]action)}
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, what, _ := strings.Cut(entry, "=")
		kind, file, named := strings.Cut(what, ":")
		act := action{kind: kind, file: file}
		var err error
		switch {
		case !slices.Contains(SaveSteps(), name) && !slices.Contains(BringSteps(), name):
			err = errors.New("no step is called so")
		case kind == "until" && file != "":
		case kind != "kill" && kind != "error", named:
			err = errors.New("the actions are kill, error and until:FILE")
		}
		if err != nil {
			return Failpoints{}, fmt.Errorf("failpoint %q: %w", entry, err)
		}
		points.actions[name] = act
	}
	return points, nil
}

// Hit is called when a step is reached.
func (f Failpoints) Hit(ctx context.Context, name string) error {
	act, set := f.actions[name]
	if !set {
		return nil
	}
	switch act.kind {
	case "kill":
		// Nothing may run any more: neither deferred functions nor other goroutines.
		if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
			return err
		}
		select {}
	case "until":
		return appears(ctx, act.file)
	}
	return fmt.Errorf("%w %s", ErrFailpoint, name)
}

// appears waits for a file, as long as somebody wants to.
func appears(ctx context.Context, path string) error {
	for {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
