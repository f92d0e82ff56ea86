package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/golden"
)

type checkpointStream = grpc.BidiStreamingServer[api.CheckpointCommand, api.CheckpointEvent]

func stepEvent(phase string, done, total uint64) *api.CheckpointEvent {
	return &api.CheckpointEvent{
		Event: &api.CheckpointEvent_Step{Step: &api.Step{Phase: phase, DoneBytes: done, TotalBytes: total}},
	}
}

// sendEvents sends the events of a checkpoint.
func sendEvents(stream checkpointStream) error {
	return errors.Join(
		stream.Send(stepEvent("copy", 0, 0)),
		stream.Send(
			&api.CheckpointEvent{Event: &api.CheckpointEvent_Notice{Notice: "the kernel tracks no dirty pages"}},
		),
		stream.Send(stepEvent("cut", 0, 0)),
		stream.Send(&api.CheckpointEvent{Event: &api.CheckpointEvent_Done{Done: &api.CheckpointDone{
			Generation: 3, PauseMicroseconds: 12_340, TotalMicroseconds: 2_345_678, WrittenBytes: 3 << 20, SharedBytes: 5 << 30,
			GpuWrittenBytes: 2 << 20, MemoryBytes: 6 << 30, Processes: 2,
		}}}),
	)
}

func TestDump(t *testing.T) {
	for _, test := range []struct {
		name, flags string
		want        *api.CheckpointBegin
		stdout      string
		stderr      string
	}{
		{
			"pre-dump", "--pre-dump --pid 7", &api.CheckpointBegin{Pids: []uint32{7}},
			"dump.txt", "copying while the program runs\nthe kernel tracks no dirty pages\npaused, copying what changed\n",
		},
		{
			"dump", "--dump --pid 8 --target cuda_memory,cuda_var --target cuda_event --compress --bandwidth 500MiB " +
				"--budget 1GiB --deadline 90s --idle-time 2m --json",
			&api.CheckpointBegin{
				Pids: []uint32{8}, Stop: true, Targets: []string{"cuda_memory", "cuda_var", "cuda_event"}, Compress: true,
				BandwidthBytes: 500 << 20, BudgetBytes: 1 << 30, DeadlineMilliseconds: 90_000, IdleMilliseconds: 120_000,
			}, "dump.json", "",
		},
		{
			"all but some", "--dump --pid 8 --skip-target cuda_stream",
			&api.CheckpointBegin{Pids: []uint32{8}, Stop: true, SkipTargets: []string{"cuda_stream"}},
			"partial.txt", "copying while the program runs\nthe kernel tracks no dirty pages\npaused, copying what changed\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got *api.CheckpointBegin
			server := &fakePhosd{
				checkpoint: func(begin *api.CheckpointBegin, _ []*os.File, stream checkpointStream) error {
					got = begin
					return sendEvents(stream)
				},
			}
			server.serve(t)
			dir := filepath.Join(t.TempDir(), "image")
			var stdout, stderr bytes.Buffer
			if status := run("pos_cli", append(strings.Fields(test.flags), "--dir", dir), &stdout, &stderr); status != exitDone {
				t.Fatalf("status %d: %s", status, stderr.String())
			}
			golden.Check(
				t,
				filepath.Join("testdata", test.stdout),
				bytes.ReplaceAll(stdout.Bytes(), []byte(dir), []byte("/data/image")),
			)
			if stderr.String() != test.stderr {
				t.Errorf("progress is %q, want %q", stderr.String(), test.stderr)
			}
			got.Files = nil
			if got.String() != test.want.String() {
				t.Errorf("request %v, want %v", got, test.want)
			}
			info, err := os.Stat(dir)
			if err != nil || info.Mode() != os.ModeDir|0o700 {
				t.Errorf("directory: got %v, %v", info, err)
			}
			if !slices.Equal(server.directories(), []string{dir}) {
				t.Errorf("handed off %q, want %q", server.directories(), dir)
			}
		})
	}
}

func TestDumpRefuses(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("cuda_event,", maxKinds+1), ",")
	for _, test := range []struct{ line, stderr string }{
		{"--dump --pid 7", "name the image's directory"},
		{"--dump --dir /x", "name the program"},
		{"--dump --dir /x --pid 4294967297", "4294967297 is not a pid"},
		{"--dump --dir /x --pid 7 --target cuda_event --skip-target cuda_var", "exclude each other"},
		{"--dump --dir /x --pid 7 --target cuda_dance", `"cuda_dance" is not a kind of state`},
		{"--dump --dir /x --pid 7 --target " + many, "at most 16"},
		{"--dump --dir /x --pid 7 --budget much", "is no size"},
		{"--dump --dir /x --pid 7 --deadline -1s", "in the past"},
		{"--restore", "name the image's directory"},
		{
			"--restore --dir /x --generation first",
			`--generation takes N (the Nth generation; 0: the newest), not "first"; see: pos_cli help restore`,
		},
		{
			"--dump --dir /x --pid 7 --compress=perhaps",
			`--compress takes true or false (compress the data that is written), not "perhaps"`,
		},
		{"--dump --dir /x --pid", "--pid needs its PID (pid of the program)"},
		{"--dump --colour", "there is no flag --colour; see: pos_cli help dump"},
		{"--pre-restore", "name the image's directory"},
		{"--trace-resource --pid 7 --dir /x", "--subaction start"},
		{"--trace-resource --subaction pause --pid 7", "--subaction start"},
		{"--trace-resource --subaction start --pid 7", "name the trace's directory"},
		{"--trace-resource --subaction stop", "name the program"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run("pos_cli", strings.Fields(test.line), &stdout, &stderr); status != exitUsage ||
			!strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("%s: status %d, %q; want %q in it", test.line, status, stderr.String(), test.stderr)
		}
	}
}

func TestDumpFails(t *testing.T) {
	for _, test := range []struct {
		name, stderr string
		answer       func(checkpointStream) error
	}{
		{"refused", "not permitted: pid 7 is another user's", func(checkpointStream) error {
			return fmt.Errorf("%w: pid 7 is another user's", api.ErrNotPermitted)
		}},
		{"interrupted", cancelText + "\npos_cli --dump: cancelled: pid 7 keeps running", func(stream checkpointStream) error {
			if err := interrupt(syscall.SIGINT); err != nil {
				return err
			}
			said, err := stream.Recv()
			if err != nil || said.GetCancel() == nil {
				return fmt.Errorf("got %v, want a cancel: %w", said, err)
			}
			return fmt.Errorf("undone: %w", context.Canceled)
		}},
		{"abandoned", "cancelled, without waiting", func(stream checkpointStream) error {
			if err := interrupt(syscall.SIGINT); err != nil {
				return err
			}
			if _, err := stream.Recv(); err != nil {
				return err
			}
			if err := interrupt(syscall.SIGINT); err != nil {
				return err
			}
			<-stream.Context().Done()
			return stream.Context().Err()
		}},
		{"interrupted, and fails", "the disk is full", func(stream checkpointStream) error {
			if err := interrupt(syscall.SIGINT); err != nil {
				return err
			}
			if _, err := stream.Recv(); err != nil {
				return err
			}
			return errors.New("the disk is full")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := &fakePhosd{
				checkpoint: func(_ *api.CheckpointBegin, _ []*os.File, stream checkpointStream) error {
					return test.answer(stream)
				},
			}
			server.serve(t)
			dir := filepath.Join(t.TempDir(), "image")
			var stdout, stderr bytes.Buffer
			status := run("pos_cli", []string{"--dump", "--pid", "7", "--dir", dir}, &stdout, &stderr)
			if status != exitFailed || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("status %d, %q; want %q in it", status, stderr.String(), test.stderr)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the created directory is still there: %v", err)
			}
		})
	}
}

// interrupt sends a signal to this process, as a terminal does.
func interrupt(signal syscall.Signal) error { return syscall.Kill(os.Getpid(), signal) }

// TestCancelTooLate cancels a checkpoint that phosd completes before it reads the cancel.
func TestCancelTooLate(t *testing.T) {
	server := &fakePhosd{checkpoint: func(_ *api.CheckpointBegin, _ []*os.File, stream checkpointStream) error {
		if err := interrupt(syscall.SIGINT); err != nil {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
		return sendEvents(stream)
	}}
	server.serve(t)
	var stdout, stderr bytes.Buffer
	status := run("pos_cli", []string{"--pre-dump", "--pid", "7", "--dir", filepath.Join(t.TempDir(), "image")}, &stdout, &stderr)
	if status != exitDone || !strings.Contains(stdout.String(), "generation 3") {
		t.Errorf("status %d, %q (%s); want generation 3", status, stdout.String(), stderr.String())
	}
}

func TestTrace(t *testing.T) {
	server := &fakePhosd{trace: func(request *api.TraceResourceRequest, _ []*os.File) (*api.TraceReply, error) {
		return &api.TraceReply{Calls: uint64(request.GetPid()), Names: []string{"one.jsonl"}}, nil
	}}
	server.serve(t)
	dir := filepath.Join(t.TempDir(), "trace")
	for _, test := range []struct {
		arguments []string
		stdout    string
	}{
		{
			[]string{"--trace-resource", "--subaction", "start", "--pid", "7", "--dir", dir},
			"pid 7 is traced into " + dir + "/one.jsonl\n",
		},
		{[]string{"--trace-resource", "--subaction", "stop", "--pid", "7"}, "the trace of pid 7 has ended, after 7 calls\n"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run("pos_cli", test.arguments, &stdout, &stderr); status != exitDone || stdout.String() != test.stdout {
			t.Errorf("status %d, %q; want %q (%s)", status, stdout.String(), test.stdout, stderr.String())
		}
	}
	if !slices.Equal(server.directories(), []string{dir}) {
		t.Errorf("handed off %q, want %q", server.directories(), dir)
	}
}
