package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

var traceVerb = verb.Verb{
	Name:      "trace-resource",
	Arguments: "--subaction start|stop --pid PID [--dir DIR]",
	Summary:   "record which calls create, use and destroy which objects",
	About: `Records, from start to stop, which calls of a program and its child processes create, use and
destroy which objects. Each process that uses a GPU gets a file trace-PID-TIME.jsonl in DIR. The
directory is created (mode 0700) if it is missing; --subaction stop needs none. A trace ends by
itself with its program, at 1 GiB, or when its file cannot be written. It is not part of a
checkpoint: to trace a restored program, start a trace again.

    pos_cli --trace-resource --subaction start --pid 4711 --dir /tmp/trace
    pos_cli --trace-resource --subaction stop --pid 4711
    jq -r 'select(.makes) | .call' /tmp/trace/*.jsonl | sort | uniq -c

Each line is a JSON object. The first names the process. Lines with "have" are the objects that
existed at the start, with the calls that created them. Then comes one line for each call, in order:

    n, us            its number, and its time, in microseconds from the start
    call             its name; missing if an object was destroyed later than the call that requested it
    context, thread  the number of the thread's current context; the number of the program's thread
    uses             objects in the arguments (as); as "params+8" is an address in a kernel's parameters
    makes, ends      objects: kind, then id or address and bytes, and the object that they end with (owner)
    error            the driver's name of the error

The last line has the number of calls, and under error the reason if the trace ended early.`,
	Values: map[string][]string{"subaction": {"start", "stop"}},
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options traceOptions
		flags.StringVar(&options.subaction, "subaction", "", "`ACTION`: start or stop")
		flags.UintVar(&options.pid, "pid", 0, "`PID` of the program")
		flags.StringVar(&options.dir, "dir", "", "`DIR` for the trace")
		flags.BoolVar(&options.asJSON, "json", false, "print the files, or at the stop the number of calls, as JSON")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if err := options.check(); err != nil {
				return err
			}
			return trace(ctx, to, options)
		}
	},
}

type traceOptions struct {
	subaction, dir string
	pid            uint
	asJSON         bool
}

// traceView is what --trace-resource --json prints. Scripts read it: fields may be added, never
// renamed or removed.
type traceView struct {
	PID uint `json:"pid"`
	// Files are those of the trace that was started.
	Files []string `json:"files"`
	// Calls is null unless the trace was stopped.
	Calls *uint64 `json:"calls"`
}

func (o *traceOptions) check() error {
	switch {
	case o.subaction != "start" && o.subaction != "stop":
		return &verb.UsageError{Text: "choose --subaction start or --subaction stop"}
	case o.pid == 0 || o.pid > math.MaxInt32:
		return &verb.UsageError{Text: "name the program: --pid PID"}
	case o.subaction == "start" && o.dir == "":
		return &verb.UsageError{Text: "name the trace's directory: --dir DIR"}
	}
	return nil
}

// trace starts or stops the trace of a program. If the start fails, a new directory is removed.
func trace(ctx context.Context, to verb.Streams, options traceOptions) error {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	request := &api.TraceResourceRequest{Pid: uint32(options.pid), Start: options.subaction == "start"}
	if !request.GetStart() {
		reply, err := client.Daemon.TraceResource(ctx, request)
		if err != nil {
			return err
		}
		if reply.GetError() != "" {
			return fmt.Errorf(
				"the trace of pid %d had already ended, after %d calls: %s",
				options.pid,
				reply.GetCalls(),
				reply.GetError(),
			)
		}
		if options.asJSON {
			calls := reply.GetCalls()
			return json.NewEncoder(to.Out).Encode(traceView{PID: options.pid, Files: []string{}, Calls: &calls})
		}
		_, err = fmt.Fprintf(to.Out, "the trace of pid %d has ended, after %d calls\n", options.pid, reply.GetCalls())
		return err
	}
	dir, removeDir, err := makeDirectory(options.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	var reply *api.TraceReply
	if request.Files, err = fdtoken.Send(ctx, api.Socket(), []*os.File{dir}); err == nil {
		reply, err = client.Daemon.TraceResource(ctx, request)
	}
	if err != nil {
		removeDir()
		return err
	}
	files := []string{}
	for _, name := range reply.GetNames() {
		files = append(files, filepath.Join(options.dir, name))
	}
	if options.asJSON {
		return json.NewEncoder(to.Out).Encode(traceView{PID: options.pid, Files: files})
	}
	for _, path := range files {
		fmt.Fprintf(to.Out, "pid %d is traced into %s\n", options.pid, path)
	}
	return nil
}
