package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// maker knows nodes a, b and c, at 10.0.0.1 and so on.
func maker() Maker {
	address := func(node string) string {
		if at := strings.Index("abc", node); at >= 0 && node != "" {
			return fmt.Sprintf("10.0.0.%d", at+1)
		}
		return ""
	}
	return Maker{Epoch: 9, Grace: 1500 * time.Millisecond, Address: address, Images: func(node string) (string, string) {
		if node == "a" {
			return address(node) + ":9413", "key of a"
		}
		return "", ""
	}}
}

// training is a launch of two jobs: a server, and three workers of two processes each. The first
// worker is not live.
func training() *record.Launch {
	worker := launch.Job{
		Name: "worker", Variables: map[string]string{"MODE": "job", "PHOS_REPLICA": "forged"},
		Processes: []launch.Process{
			{
				Command: []string{"./train", "a b", "\xff\x00"}, Directory: "sub", Ports: []string{"web", "debug-port"},
				Variables: map[string]string{"MODE": "process"},
				Resources: launch.Resources{CPUs: 1500, Memory: 1 << 30, GPUs: 2},
			},
			{Command: []string{"watch"}, Ports: []string{"metrics"}, Resources: launch.Resources{GPUs: 1}},
		},
	}
	server := launch.Job{Name: "server", Processes: []launch.Process{{Command: []string{"serve"}}}}
	server.Replicas.Max, worker.Replicas.Max = 1, 3
	return &record.Launch{
		ID: "l-1", Number: 12, Owner: "ada", Saves: 3, Code: record.Code{Hash: strings.Repeat("0f", 32), Bytes: 77},
		State: launch.State{
			Spec: launch.Spec{
				Name: "digits", Jobs: []launch.Job{server, worker},
				Source: launch.Source{Git: "https://example.org/m.git", Branch: "main", Commit: "c0ffee"},
			},
			Replicas: []launch.Replica{
				{Job: 0, Index: 0, Attempt: 1, Live: true, Node: "a", Port: 1000},
				{Job: 1, Index: 0, Attempt: 4, Live: false, Node: "a", Port: 2000},
				{Job: 1, Index: 1, Attempt: 2, Live: true, Node: "b", Port: 3000},
				{Job: 1, Index: 2, Attempt: 5, Live: true, Node: "c", Port: 4000},
			},
		},
	}
}

// orderOf returns an order for a replica.
func orderOf(l *record.Launch, replica int, do launch.Do, gpus ...int) launch.Order {
	r := l.State.Replicas[replica]
	return launch.Order{
		Assignment: launch.Assignment{Replica: replica, Node: r.Node, GPUs: gpus}, Attempt: r.Attempt, Generation: 6, Do: do,
	}
}

// variables returns the environment of a process.
func variables(t *testing.T, p *api.ProcessOrder) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, each := range p.GetEnvironment() {
		name, value, found := strings.Cut(string(each), "=")
		if _, twice := values[name]; twice || !found {
			t.Errorf("variable %q: twice %v", each, twice)
		}
		values[name] = value
	}
	return values
}

// TestRun: an agent gets all that it needs to run a replica.
func TestRun(t *testing.T) {
	l := training()
	got := maker().Order(l, orderOf(l, 3, launch.Run, 7, 5, 3))
	processes := got.GetProcesses()
	got.Processes = nil
	hash := []byte(strings.Repeat("\x0f", 32))
	want := &api.Order{
		Attempt: &api.Attempt{Launch: "l-1", Replica: 3, Attempt: 5}, Do: "run", Epoch: 9, Owner: "ada",
		Gpus: []uint32{7, 5, 3}, Code: &api.CodeRef{Hash: hash, Bytes: 77},
		Git: "https://example.org/m.git", Branch: "main", Commit: "c0ffee", GraceMs: 1500, Generation: 6,
		Name: "digits", Save: 3, Together: true, Checkpoint: &api.CheckpointOrder{Keep: 3},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if len(processes) != 2 {
		t.Fatalf("%d processes", len(processes))
	}
	first, second := processes[0], processes[1]
	if text := fmt.Sprintf("%q", first.GetCommand()); text != `["./train" "a b" "\xff\x00"]` {
		t.Errorf("the command is %s", text)
	}
	if first.GetDirectory() != "sub" || first.GetMillicpus() != 1500 || first.GetMemoryBytes() != 1<<30 {
		t.Errorf("the process gets %v", first)
	}
	if !slices.Equal(first.GetGpus(), []uint32{7, 5}) || !slices.Equal(second.GetGpus(), []uint32{3}) {
		t.Errorf("the GPUs are %v and %v", first.GetGpus(), second.GetGpus())
	}
	// The replica that is not live has no rank: the first live one is rank 0.
	for i, want := range []map[string]string{
		{
			"RANK": "2", "WORLD_SIZE": "4", "NODE_RANK": "1", "MASTER_ADDR": "10.0.0.2", "MASTER_PORT": "3000",
			"MODE": "process", "PHOS_REPLICA": "2", "PHOS_GPUS": "7,5", "PHOS_NODE": "c", "PHOS_ATTEMPT": "5",
			"PHOS_PORT_WEB": "4001", "PHOS_PORT_DEBUG_PORT": "4002",
		},
		{"RANK": "3", "MODE": "job", "PHOS_GPUS": "3", "PHOS_PORT_METRICS": "4003"},
	} {
		values := variables(t, processes[i])
		for name, value := range want {
			if values[name] != value {
				t.Errorf("process %d: %s is %q, want %q", i, name, values[name], value)
			}
		}
	}
	if values := variables(t, second); values["PHOS_PORT_WEB"] != "" {
		t.Error("a process is told the port of another one as its own")
	}
}

// TestPlaces: ranks count the live replicas of the same job, and the address is that of rank 0. A
// node whose address is not known has none.
func TestPlaces(t *testing.T) {
	l := training()
	for _, test := range []struct {
		replica     int
		rank, world string
		main        string
	}{
		{0, "0", "1", "10.0.0.1:1000"},
		{2, "0", "4", "10.0.0.2:3000"},
		{3, "2", "4", "10.0.0.2:3000"},
	} {
		got := maker().Order(l, orderOf(l, test.replica, launch.Run, 0, 1, 2))
		values := variables(t, got.GetProcesses()[0])
		at := values["MASTER_ADDR"] + ":" + values["MASTER_PORT"]
		if values["RANK"] != test.rank || values["WORLD_SIZE"] != test.world || at != test.main {
			t.Errorf("replica %d: rank %s of %s, main %s", test.replica, values["RANK"], values["WORLD_SIZE"], at)
		}
	}
	l.State.Replicas[2].Node = "unknown"
	got := maker().Order(l, orderOf(l, 3, launch.Run, 0, 1, 2))
	if address, set := variables(t, got.GetProcesses()[0])["MASTER_ADDR"]; address != "" || !set {
		t.Errorf("the address of an unknown node is %q", address)
	}
}

// TestStopAndSave: what does not start needs no processes, and gets no key.
func TestStopAndSave(t *testing.T) {
	l := training()
	l.Images = []record.Image{{Node: "b", Dir: "/d", Generation: 1, Key: []byte("secret")}}
	for _, do := range []launch.Do{launch.Stop, launch.Save} {
		o := orderOf(l, 2, do)
		o.Image = l.Images[0].Name()
		got := maker().Order(l, o)
		if got.GetDo() != string(do) || got.GetProcesses() != nil || got.GetImage() != nil || got.GetImageKey() != nil {
			t.Errorf("the order is %v", got)
		}
		if got.GetAttempt().GetAttempt() != 2 || got.GetSave() != 3 || got.GetOwner() != "ada" {
			t.Errorf("the order is %v", got)
		}
	}
}

// TestFromImage: a start from an image has its key, which people are not shown. An image that is
// not known any longer is none.
func TestFromImage(t *testing.T) {
	l := training()
	l.Images = []record.Image{
		{Node: "a", Dir: "/d", Generation: 1, Key: []byte("other")},
		{Node: "a", Dir: "/d", Generation: 2, Key: []byte("secret"), Attempt: 1, Replica: 2},
	}
	o := orderOf(l, 2, launch.Run, 0, 1, 2)
	o.Image = l.Images[1].Name()
	got := maker().Order(l, o)
	if got.GetImage().GetGeneration() != 2 || string(got.GetImageKey()) != "secret" {
		t.Errorf("the order goes on from %v, key %q", got.GetImage(), got.GetImageKey())
	}
	if from := got.GetImageFrom(); from.GetNode() != "a" || from.GetAddress() != "10.0.0.1:9413" ||
		from.GetKey() != "key of a" {
		t.Errorf("it is fetched from %v", from)
	}
	o.Node = "a"
	if got := maker().Order(l, o); got.GetImageFrom() != nil {
		t.Errorf("on its own node it is fetched from %v", got.GetImageFrom())
	}
	o.Node, l.Images[1].Shared = "b", true
	if got := maker().Order(l, o); got.GetImageFrom() != nil {
		t.Errorf("from a shared directory it is fetched from %v", got.GetImageFrom())
	}
	o.Image = "a:/d#3"
	if got := maker().Order(l, o); got.GetImage() != nil || got.GetImageKey() != nil {
		t.Errorf("the order goes on from %v", got.GetImage())
	}
}

// TestCheckpoint: an agent saves a replica by the policy, unless it is saved with others. What it
// has of the last cut stays.
func TestCheckpoint(t *testing.T) {
	l := training()
	l.State.Spec.Checkpoint.Every = launch.Duration(time.Minute)
	if got := maker().Order(l, orderOf(l, 2, launch.Run, 0, 1, 2)); got.GetCheckpoint().GetEveryMs() != 0 || !got.GetTogether() {
		t.Errorf("a launch of several replicas: %v, together %v", got.GetCheckpoint(), got.GetTogether())
	}
	l.Images = []record.Image{{Node: "a", Dir: "/d", Generation: 4, Replica: 2, Attempt: 5, Cut: 3}}
	l.State.Cut = map[int]string{2: "a:/d#4"}
	for attempt, want := range map[int]uint64{5: 4, 6: 0} {
		o := orderOf(l, 2, launch.Run, 0, 1, 2)
		o.Attempt = attempt
		if got := maker().Order(l, o).GetNeeded(); got != want {
			t.Errorf("attempt %d: generation %d is needed, want %d", attempt, got, want)
		}
	}
	l.State.Spec.Jobs = l.State.Spec.Jobs[:1]
	l.State.Spec.Jobs[0].Processes = append(l.State.Spec.Jobs[0].Processes, launch.Process{Command: []string{"watch"}})
	l.State.Spec.Checkpoint = launch.Checkpoint{Every: launch.Duration(90 * time.Second), Keep: 4, Directory: "/shared"}
	want := &api.CheckpointOrder{EveryMs: 90_000, Keep: 4, SharedDir: "/shared"}
	if got := maker().Order(l, orderOf(l, 0, launch.Run)).GetCheckpoint(); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWithoutCode: a launch without code has none; a name that is none is not passed on.
func TestWithoutCode(t *testing.T) {
	l := training()
	for _, hash := range []string{"", "no digits", "0f0"} {
		l.Code.Hash = hash
		if got := maker().Order(l, orderOf(l, 0, launch.Stop)); got.GetCode() != nil {
			t.Errorf("hash %q: %v", hash, got.GetCode())
		}
	}
}
