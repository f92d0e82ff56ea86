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

// ErrFailpoint is returned by a step that fails because of a failpoint.
var ErrFailpoint = errors.New("failpoint")

// Failpoints maps names of steps to actions that run just before the step. The zero value does
// nothing.
type Failpoints struct {
	actions map[string]action
}

// CheckpointSteps returns the names of all steps of a checkpoint, in order. "publish" runs only if
// the image goes to a stream.
func CheckpointSteps() []string {
	return []string{
		"inspect", "begin", "precopy", "attempts", "quiesce", "freeze", "cut", "hold", "resume", "write", "finish",
		"commit", "publish", "end",
	}
}

// RestoreSteps returns the names of all steps of a restore, in the order of an eager one. A lazy
// restore without a hold runs "ready" after "processes".
func RestoreSteps() []string {
	return []string{"prepare", "unpack", "workers", "ready", "restore-hold", "processes", "attach", "keep"}
}

// action runs when a step is reached.
type action struct {
	kind string // "kill", "error" or "until"
	file string // the file that "until" waits for
}

// ParseFailpoints parses a comma-separated list of NAME=ACTION. The actions are kill (this process,
// as by kill -9), error, and until:FILE, which waits until the file exists.
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
		case !slices.Contains(CheckpointSteps(), name) && !slices.Contains(RestoreSteps(), name):
			err = errors.New("no step has this name")
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

// Hit runs the action of a step, if it has one.
func (f Failpoints) Hit(ctx context.Context, name string) error {
	act, set := f.actions[name]
	if !set {
		return nil
	}
	switch act.kind {
	case "kill":
		// No deferred function and no other goroutine may run after this.
		if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
			return err
		}
		select {}
	case "until":
		return waitForFile(ctx, act.file)
	}
	return fmt.Errorf("%w %s", ErrFailpoint, name)
}

// waitForFile blocks until a file exists or ctx ends.
func waitForFile(ctx context.Context, path string) error {
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
