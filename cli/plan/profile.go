package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
)

const aboutProfile = `Measures the layers of a model on this machine, by a program that trains it with phos.pipeline. The
program makes its layers and data as always; instead of training, it measures and ends.

    pos_cli plan profile -- python3 train.py > model.json
    pos_cli plan make --profile model.json --nodes 16 --faults 2 --microbatches 512

What the program prints goes to standard error. The times are those of one microbatch on one device:
measure on a machine that is like those of the training, with nothing else running.

--out FILE writes the profile there, and prints it as a table. A training measures its layers
itself when it begins; this is for planning before there are any machines.`

// profileVariable tells phos.pipeline to measure, and where to write the profile.
const profileVariable = "PHOS_PIPELINE_PROFILE"

// measureVerb returns the verb that measures a model.
func measureVerb() *verb.Verb {
	return &verb.Verb{
		Name: "plan profile", Word: true, Command: true, Arguments: "-- CMD ...",
		Summary: "measure the layers of a model on this machine", About: aboutProfile, Setup: measureFlags,
	}
}

// measureFlags defines the flags of plan profile.
func measureFlags(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	out := flags.String("out", "", "`FILE` for the profile; default: standard output")
	return func(ctx context.Context, to verb.Streams, command []string) error {
		if len(command) > 0 && command[0] == "--" {
			command = command[1:]
		}
		if len(command) == 0 {
			return &verb.UsageError{Text: "name the program that trains: pos_cli plan profile -- python3 train.py"}
		}
		text, err := measure(ctx, to, command)
		if err != nil {
			return err
		}
		profile, err := pipeline.ReadProfile(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("the profile that %s has measured: %w", command[0], err)
		}
		if *out == "" {
			return printJSON(to, json.RawMessage(text))
		}
		if err := os.WriteFile(*out, append(text, '\n'), 0o644); err != nil {
			return err
		}
		return printProfile(to, profile)
	}
}

// measure runs a program that measures, and returns what it has written.
func measure(ctx context.Context, to verb.Streams, command []string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "phos-profile-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "profile.json")
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, to.Err, to.Err
	program.Env = append(os.Environ(), profileVariable+"="+path)
	if err := program.Run(); err != nil {
		return nil, fmt.Errorf("%s has measured nothing: %w", command[0], err)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s has ended without measuring: it must make a Training of phos.pipeline", command[0])
	}
	return text, err
}

// printProfile prints a profile as a table.
func printProfile(to verb.Streams, p *pipeline.Profile) error {
	return printRows(to, "LAYER\tNAME\tFORWARD (ms)\tBACKWARD (ms)\tSTATE\tKEPT OF A MICROBATCH", func(row func(string, ...any)) {
		for i, each := range p.Layers {
			row("%d\t%s\t%s\t%s\t%s\t%s", i, each.Name, pipeline.Milliseconds(int64(each.Forward)),
				pipeline.Milliseconds(int64(each.Backward)), pipeline.Size(each.StateBytes), pipeline.Size(each.ActivationBytes))
		}
	})
}
