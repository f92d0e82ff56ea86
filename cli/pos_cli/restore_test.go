package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/imagecmd"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
)

type restoreStream = grpc.BidiStreamingServer[api.RestoreCommand, api.RestoreEvent]

// imageWith creates an image whose only generation has these endpoints.
func imageWith(t *testing.T, ends []image.Endpoint) string {
	t.Helper()
	path := t.TempDir()
	dir, err := imagecmd.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	made, err := store.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	transaction, err := made.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := image.SealManifest(&image.Manifest{
		Version: image.Version, Generation: transaction.Generation(), Phos: "test", Endpoints: ends,
	}, image.GenerateKey())
	if err != nil {
		t.Fatal(err)
	}
	if err := transaction.Commit(t.Context(), signed); err != nil {
		t.Fatal(err)
	}
	return path
}

// runScript runs a shell command in place of the restored program, with the handed-off files as its
// standard files.
func runScript(files map[uint32]*os.File, places [3]uint32, script string, stream restoreStream) error {
	command := exec.Command("sh", "-c", script)
	if file := files[places[0]]; file != nil {
		command.Stdin = file
	}
	if file := files[places[1]]; file != nil {
		command.Stdout = file
	}
	if file := files[places[2]]; file != nil {
		command.Stderr = file
	}
	if err := command.Start(); err != nil {
		return err
	}
	closed := make([]*os.File, 0, len(files))
	for _, file := range files {
		closed = append(closed, file)
	}
	closeAll(closed)
	running := &api.RestoreRunning{Pid: uint32(command.Process.Pid), Processes: 1, TotalMicroseconds: 1500}
	if err := stream.Send(&api.RestoreEvent{Event: &api.RestoreEvent_Running{Running: running}}); err != nil {
		return errors.Join(err, command.Process.Kill(), command.Wait())
	}
	go func() {
		for {
			said, err := stream.Recv()
			if err != nil {
				return
			}
			_ = command.Process.Signal(syscall.Signal(said.GetSignal()))
		}
	}()
	_ = command.Wait() // ProcessState has the status
	status := int32(command.ProcessState.Sys().(syscall.WaitStatus))
	return stream.Send(&api.RestoreEvent{Event: &api.RestoreEvent_Ended{Ended: &api.RestoreEnded{Status: status}}})
}

// outcome is the result of pos_cli --restore.
type outcome struct {
	status           int
	out, err, stderr string
}

// restoreThrough runs a restore whose standard files are pipes.
func restoreThrough(t *testing.T, options restoreOptions, input string) outcome {
	t.Helper()
	var files [6]*os.File
	for i := range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		files[2*i], files[2*i+1] = read, write
	}
	defer closeAll(files[:])
	if _, err := files[1].WriteString(input); err != nil {
		t.Fatal(err)
	}
	if err := files[1].Close(); err != nil {
		t.Fatal(err)
	}
	options.standard = terminal.Standard{In: files[0], Out: files[3], Err: files[5]}
	var stderr bytes.Buffer
	err := restore(context.WithoutCancel(t.Context()), verb.Streams{Out: io.Discard, Err: &stderr}, options)
	got := outcome{stderr: stderr.String()}
	var ended *programEnded
	switch {
	case errors.As(err, &ended):
		got.status = ended.status
	case err != nil:
		got.status, got.stderr = -1, got.stderr+err.Error()
	}
	closeAll([]*os.File{files[3], files[5]})
	for i, to := range []*string{&got.out, &got.err} {
		all, err := io.ReadAll(files[2+2*i])
		if err != nil {
			t.Fatal(err)
		}
		*to = string(all)
	}
	return got
}

func TestRestore(t *testing.T) {
	tty := image.Endpoint{ID: 1, Kind: "terminal", Standard: 0, Rows: 33, Columns: 77}
	in := image.Endpoint{ID: 1, Kind: "pipe-read", Standard: 0}
	out := image.Endpoint{ID: 2, Kind: "pipe-write", Standard: 1}
	fail := image.Endpoint{ID: 3, Kind: "pipe-write", Standard: 2}
	elsewhere := image.Endpoint{ID: 4, Kind: "pipe-write", Standard: -1}
	socket := image.Endpoint{ID: 5, Kind: "stream-socket", Standard: 1}
	for _, test := range []struct {
		name          string
		ends          []image.Endpoint
		places        [3]uint32
		script, input string
		want          outcome
	}{
		{
			"pipes",
			[]image.Endpoint{in, out, fail, elsewhere},
			[3]uint32{1, 2, 3},
			"cat; echo wrong >&2; exit 7", "a\nb\n",
			outcome{7, "a\nb\n", "wrong\n", ""},
		},
		{
			"much",
			[]image.Endpoint{in, out},
			[3]uint32{1, 2, 0},
			"head -c 3000000 /dev/zero | tr '\\0' x | wc -c", "",
			outcome{0, "3000000\n", "", ""},
		},
		{
			"terminal",
			[]image.Endpoint{tty},
			[3]uint32{1, 1, 1},
			"test -t 0 && read a && stty size && echo $a", "hello\n",
			outcome{0, "hello\r\n33 77\r\nhello\r\n", "", ""},
		},
		{
			"terminal, piped into another",
			[]image.Endpoint{tty, out},
			[3]uint32{1, 2, 1},
			"stty -echo; echo out; echo log >&2", "",
			outcome{0, "out\n", "log\r\n", ""},
		},
		{
			"end of input at a terminal",
			[]image.Endpoint{tty},
			[3]uint32{1, 1, 1},
			"stty -echo; cat; exit 4", "",
			outcome{4, "", "", ""},
		},
		{"socket", []image.Endpoint{socket}, [3]uint32{0, 5, 0}, "echo journal", "", outcome{0, "journal\n", "", ""}},
		{"killed", nil, [3]uint32{}, "kill -9 $$", "", outcome{128 + 9, "", "", ""}},
		{"signal", []image.Endpoint{in, out}, [3]uint32{1, 2, 0}, fmt.Sprintf("trap 'echo got; exit 5' TERM; read a; "+
			"kill -TERM %d; while :; do sleep 0.01; done", os.Getpid()), "now\n", outcome{5, "got\n", "", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := &fakePhosd{
				restore: func(begin *api.RestoreBegin, files []*os.File, stream restoreStream) error {
					if begin.GetGeneration() != 1 || len(files) != 1+len(begin.GetEndpoints()) {
						return fmt.Errorf("%w: %d files for %v", api.ErrInvalid, len(files), begin)
					}
					given := map[uint32]*os.File{}
					for i, id := range begin.GetEndpoints() {
						given[id] = files[1+i]
					}
					if given[elsewhere.ID] != nil {
						return fmt.Errorf("%w: an endpoint that pos_cli must not open", api.ErrInvalid)
					}
					return runScript(given, test.places, test.script, stream)
				},
			}
			server.serve(t)
			got := restoreThrough(t, restoreOptions{dir: imageWith(t, test.ends)}, test.input)
			if !strings.Contains(got.stderr, "runs again") {
				t.Errorf("stderr is %q, want \"runs again\" in it", got.stderr)
			}
			got.stderr = ""
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestRestoreFails(t *testing.T) {
	running := &api.RestoreEvent{Event: &api.RestoreEvent_Running{Running: &api.RestoreRunning{Pid: 12, Processes: 3}}}
	for _, test := range []struct {
		name, want string
		options    restoreOptions
		answer     func(restoreStream) error
	}{
		{"refused", "pid 12 is taken", restoreOptions{}, func(restoreStream) error {
			return fmt.Errorf("%w: pid 12 is taken", api.ErrInvalid)
		}},
		{"interrupted", "cancelled: the image is as it was", restoreOptions{}, func(stream restoreStream) error {
			if err := interrupt(syscall.SIGTERM); err != nil {
				return err
			}
			said, err := stream.Recv()
			if err != nil || said.GetCancel() == nil {
				return fmt.Errorf("got %v, want a cancel: %w", said, err)
			}
			return fmt.Errorf("undone: %w", context.Canceled)
		}},
		{"abandoned", "cancelled, without waiting", restoreOptions{}, func(stream restoreStream) error {
			if err := interrupt(syscall.SIGTERM); err != nil {
				return err
			}
			if _, err := stream.Recv(); err != nil {
				return err
			}
			if err := interrupt(syscall.SIGTERM); err != nil {
				return err
			}
			<-stream.Context().Done()
			return stream.Context().Err()
		}},
		{
			"connection closed", "pid 12 keeps running without pos_cli: phosd closed",
			restoreOptions{},
			func(stream restoreStream) error {
				return stream.Send(running)
			},
		},
		{"no such generation", "9", restoreOptions{generation: 9}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := &fakePhosd{
				restore: func(_ *api.RestoreBegin, _ []*os.File, stream restoreStream) error { return test.answer(stream) },
			}
			server.serve(t)
			test.options.dir = imageWith(t, nil)
			if got := restoreThrough(t, test.options, ""); got.status != -1 ||
				!strings.Contains(got.stderr, test.want) {
				t.Errorf("status %d, %q; want %q in it", got.status, got.stderr, test.want)
			}
		})
	}
}

func TestRestoreDetached(t *testing.T) {
	var got *api.RestoreBegin
	server := &fakePhosd{restore: func(begin *api.RestoreBegin, _ []*os.File, stream restoreStream) error {
		got = begin
		return stream.Send(
			&api.RestoreEvent{Event: &api.RestoreEvent_Running{Running: &api.RestoreRunning{Pid: 12, Processes: 3}}},
		)
	}}
	server.serve(t)
	dir := imageWith(t, []image.Endpoint{{ID: 1, Kind: "terminal", Standard: 0}})
	var stdout, stderr bytes.Buffer
	status := run("pos_cli", []string{"--restore", "--dir", dir, "--detach", "--new-pids", "--eager"}, &stdout, &stderr)
	if status != exitDone || stderr.String() != "pid 12 runs again (processes: 3), after 0s\n" {
		t.Errorf("status %d, %q; want pid 12", status, stderr.String())
	}
	if !got.GetDetach() || !got.GetNewPids() || !got.GetEager() || len(got.GetEndpoints()) != 0 {
		t.Errorf("request %v, want detach, new pids, eager and no endpoints", got)
	}
}

func TestPreRestore(t *testing.T) {
	server := &fakePhosd{
		preRestore: func(request *api.PreRestoreRequest, _ []*os.File,
			stream grpc.ServerStreamingServer[api.RestoreEvent],
		) error {
			if request.GetCancel() {
				return nil
			}
			return stream.Send(&api.RestoreEvent{Event: &api.RestoreEvent_Loaded{Loaded: &api.RestoreLoaded{
				Bytes: request.GetGeneration() << 20, TotalMicroseconds: 1_250_000,
			}}})
		},
	}
	server.serve(t)
	for flags, want := range map[string]string{
		"--generation 3": "ready: 3 MiB loaded in 1.25s\n",
		"--cancel":       "the image is no longer prepared\n",
	} {
		var stdout, stderr bytes.Buffer
		arguments := append([]string{"--pre-restore", "--dir", t.TempDir()}, strings.Fields(flags)...)
		if status := run("pos_cli", arguments, &stdout, &stderr); status != exitDone || stdout.String() != want {
			t.Errorf("%s: status %d, %q, want %q (%s)", flags, status, stdout.String(), want, stderr.String())
		}
	}
}
