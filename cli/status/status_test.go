package status

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/golden"
)

// example has a program in each state; one has control characters in its texts.
func example() (*api.StatusReply, time.Time) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(age time.Duration) int64 { return now.Add(-age).UnixMilli() }
	return &api.StatusReply{
		Daemon: &api.DaemonStatus{
			Version: "1.2.3", Pid: 7, Socket: "/run/phos/phosd.sock", Gpus: "soft:2",
			StartedUnixMilliseconds: ago(26*time.Hour + 5*time.Minute), Warnings: []string{"no tmpfs"},
			WaitingWorkers: 2, WaitingBytes: []uint64{1 << 29, 0},
		},
		Gpus: []*api.GPU{
			{Index: 0, Name: "phos software GPU", Uuid: "GPU-0", MemoryBytes: 8 << 30, UsedBytes: 3 << 29, Programs: 2},
			{Index: 1, Name: "phos software GPU", Uuid: "GPU-1", MemoryBytes: 8 << 30},
		},
		Programs: []*api.Program{
			{
				Session: 1, Pid: 100, Uid: 0, User: "root", Command: "python3 train.py", StartedUnixMilliseconds: ago(61 * time.Second),
				LastCheckpointUnixMilliseconds: ago(30 * time.Second), WorkerPid: 101,
				CheckpointDir: "/data/digits", CheckpointGeneration: 7, CheckpointError: "no space left on device",
				CheckpointFailedUnixMilliseconds: ago(
					5 * time.Second,
				), NextCheckpointUnixMilliseconds: ago(-90 * time.Second),
				Policy: &api.Policy{
					Dir:               "/data/digits",
					EveryMilliseconds: 120_000,
					Keep:              3,
					BandwidthBytes:    500 << 20,
					On:                []string{"drain"},
				},
				Description: &api.Description{
					Live: true, JobName: "digits", LogPath: "phos.log", Rank: 0, WorldSize: 2,
					Progress: &api.Progress{
						CallsMade: 12, CallsCompleted: 11, CallsAwaited: 4, PendingCall: "cuStreamSynchronize", PendingStream: 3,
						PendingMilliseconds: 15_000, Kernels: []string{"matmul"}, Memory: []*api.DeviceMemory{
							{Gpu: 0, Bytes: 3 << 29},
							{Gpu: 1},
						},
					},
				},
			},
			{
				Session: 2, Pid: 200, RootPid: 90, Uid: 1000, User: "ann", Command: "evil\x1b[2J", StartedUnixMilliseconds: ago(0), WorkerPid: 201,
				Description: &api.Description{JobName: "evil\x1b[2J", JobFileError: "pos.yaml:1: x: unknown field"},
			},
			{
				Session: 4, Pid: 400, Uid: 1000, User: "ann", Command: "wild", StartedUnixMilliseconds: ago(time.Second), WorkerPid: 401,
				Description: &api.Description{Live: true, JobName: "wild", Progress: &api.Progress{
					CallsMade: 5, CallsCompleted: 5, PinnedBytes: 1 << 20, Fault: "kernel store: st.global.u32 at line 5: address 0x0",
				}},
			},
			{
				Session:                 3,
				Pid:                     300,
				RootPid:                 90,
				Uid:                     1000,
				User:                    "ann",
				Command:                 "stuck",
				StartedUnixMilliseconds: ago(3 * time.Hour),
				WorkerPid:               301,
			},
		},
	}, now
}

func TestStatusJSON(t *testing.T) {
	reply, now := example()
	view := Of(reply, now)
	// The golden file must not depend on where the test runs.
	inUTC(&view)
	text, err := json.MarshalIndent(view, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/status.json", append(text, '\n'))
}

func TestStatusTable(t *testing.T) {
	reply, now := example()
	view := Of(reply, now)
	var text bytes.Buffer
	if err := view.Table(&text); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/status.txt", text.Bytes())
}

// TestPS: programs of one tree are listed together, and the pid to name is the tree's.
func TestPS(t *testing.T) {
	reply, now := example()
	var text bytes.Buffer
	if err := Of(reply, now).PS(&text); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/ps.txt", text.Bytes())
}

// TestNoPrograms: a user without programs learns that others have some.
func TestNoPrograms(t *testing.T) {
	for _, test := range []struct {
		programs uint32
		want     string
	}{{0, "no programs\n"}, {1, "no programs of yours\n"}} {
		var text bytes.Buffer
		view := Of(&api.StatusReply{Gpus: []*api.GPU{{Programs: test.programs}}}, time.UnixMilli(0))
		if err := view.PS(&text); err != nil || text.String() != test.want {
			t.Errorf("got %q, %v; want %q", text.String(), err, test.want)
		}
	}
}

// TestEmptyStatusJSON: scripts get empty lists, not null.
func TestEmptyStatusJSON(t *testing.T) {
	text, err := json.Marshal(Of(&api.StatusReply{}, time.UnixMilli(0)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"gpus":[]`, `"programs":[]`, `"warnings":[]`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("got %s, want %s in it", text, want)
		}
	}
}

func inUTC(view *View) {
	view.Daemon.Started = view.Daemon.Started.UTC()
	for _, gpu := range view.GPUs {
		if gpu.Hardware != nil {
			for _, e := range gpu.Hardware.Events {
				*e.Time = e.Time.UTC()
			}
		}
	}
	for i := range view.Programs {
		program := &view.Programs[i]
		program.Started = program.Started.UTC()
		for _, at := range []*time.Time{program.LastCheckpoint, program.Checkpoint.Failed, program.Checkpoint.Next} {
			if at != nil {
				*at = at.UTC()
			}
		}
	}
}
