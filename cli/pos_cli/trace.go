package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"

	"github.com/phos-gpu/phos/daemon/handover"
	"github.com/phos-gpu/phos/daemon/rpc"
)

var traceVerb = verb{
	name:      "trace-resource",
	arguments: "--subaction start|stop --pid PID [--dir DIR]",
	summary:   "write down which calls make and use which objects",
	about: `Writes down, from start to stop, which of a program's calls make, use and end which objects, in a file in DIR. The
directory is made (mode 0700) if it is missing; --subaction stop needs none.

    pos_cli --trace-resource --subaction start --pid 4711 --dir /tmp/trace
    pos_cli --trace-resource --subaction stop --pid 4711`,
	prepare: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
		var options traceOptions
		flags.StringVar(&options.subaction, "subaction", "", "`ACTION`: start or stop")
		flags.UintVar(&options.pid, "pid", 0, "`PID` of the program")
		flags.StringVar(&options.dir, "dir", "", "`DIR` that the trace is written into")
		return func(ctx context.Context, to streams, _ []string) error {
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
}

func (o *traceOptions) check() error {
	switch {
	case o.subaction != "start" && o.subaction != "stop":
		return &usageError{"say what to do: --subaction start or --subaction stop"}
	case o.pid == 0 || o.pid > math.MaxInt32:
		return &usageError{"name the program: --pid PID"}
	case o.subaction == "start" && o.dir == "":
		return &usageError{"name the trace's directory: --dir DIR"}
	}
	return nil
}

func trace(ctx context.Context, to streams, options traceOptions) error {
	client, err := rpc.Dial(rpc.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	request := &rpc.TraceResourceRequest{Pid: uint32(options.pid), Start: options.subaction == "start"}
	if !request.GetStart() {
		reply, err := client.Daemon.TraceResource(ctx, request)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(to.out, "the trace of pid %d has ended, after %d calls\n", options.pid, reply.GetCalls())
		return err
	}
	dir, clear, err := makeDirectory(options.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if request.Files, err = handover.Send(ctx, rpc.Socket(), []*os.File{dir}); err == nil {
		_, err = client.Daemon.TraceResource(ctx, request)
	}
	if err != nil {
		clear()
		return err
	}
	_, err = fmt.Fprintf(to.out, "pid %d is traced into %s\n", options.pid, options.dir)
	return err
}
