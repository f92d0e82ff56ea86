package clusterfudge

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// ask is a request with everything that the client can say.
func ask() *wire.CreateLaunchRequest {
	return &wire.CreateLaunchRequest{
		Title: "digits", Description: "a test", Hostnames: []string{"node1"}, Cluster: "Unassigned", Shard: "red",
		GitRepo: "https://example.org/x.git", GitBranch: "main", GitCommit: strings.Repeat("a1", 20),
		NodeExclusivity:   wire.NodeExclusivity_NODE_EXCLUSIVITY_REQUIRE_ENTIRE_NODE,
		QueueingBehaviour: &wire.QueueingBehaviour{QueueLaunch: true},
		Jobs: []*wire.Job{{
			ShortName: "train", Replicas: 2,
			OnReplicaFailure: &wire.Job_OnReplicaFailureOtherReplicasContinue{},
			Processes: []*wire.Process{
				{Command: []string{"python3", "train.py"}, ResourceRequirements: &wire.Resources{Cpus: 2, MemoryMb: 512, GpuA100_40Gb: 4}},
				{Command: []string{"watch"}},
			},
		}},
	}
}

func TestSpecOf(t *testing.T) {
	got, err := specOf(ask())
	if err != nil {
		t.Fatal(err)
	}
	want := launch.Spec{
		Name: "digits", Description: "a test", Queue: launch.Wait,
		Place:  launch.Place{Shard: "red", Hostnames: []string{"node1"}, WholeNodes: true},
		Source: launch.Source{Git: "https://example.org/x.git", Branch: "main", Commit: strings.Repeat("a1", 20)},
		Jobs: []launch.Job{{
			Name: "train", Replicas: launch.Replicas{Min: 2, Max: 2}, OnReplicaFailure: launch.KeepOthers,
			Processes: []launch.Process{
				{Command: []string{"python3", "train.py"}, Resources: launch.Resources{
					CPUs: 2000, Memory: 512 << 20, GPUs: 4, GPUModels: []string{"a100-40gb"},
				}},
				{Command: []string{"watch"}},
			},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for i, p := range got.Jobs[0].Processes {
		asked := ask().GetJobs()[0].GetProcesses()[i].GetResourceRequirements()
		if asked == nil {
			asked = &wire.Resources{}
		}
		if back := resourcesView(p.Resources); !proto.Equal(back, asked) {
			t.Errorf("process %d shows %v, want %v", i, back, asked)
		}
	}
}

// TestOldRequest: a request of one command has one job. Without a behaviour it is not queued.
func TestOldRequest(t *testing.T) {
	got, err := specOf(&wire.CreateLaunchRequest{
		Command: []string{"true"}, Replicas: 3, ReplicaResources: &wire.Resources{GpuH100: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	job := got.Jobs[0]
	if got.Queue != launch.Refuse || job.Replicas.Min != 3 || job.Processes[0].Resources.GPUs != 1 {
		t.Errorf("got %+v", got)
	}
}

// TestWrong: each error names the field, and what would be right.
func TestWrong(t *testing.T) {
	for says, change := range map[string]func(*wire.CreateLaunchRequest){
		"jobs[0].replicas: -1: want a number from 1": func(r *wire.CreateLaunchRequest) { r.Jobs[0].Replicas = -1 },
		"jobs[0].replicas: 0: want a number from 1":  func(r *wire.CreateLaunchRequest) { r.Jobs[0].Replicas = 0 },
		"jobs[0].name: missing":                      func(r *wire.CreateLaunchRequest) { r.Jobs[0].ShortName = "" },
		"jobs: missing":                              func(r *wire.CreateLaunchRequest) { r.Jobs = nil },
		"processes[0].resources.cpus: -2: want": func(r *wire.CreateLaunchRequest) {
			r.Jobs[0].Processes[0].ResourceRequirements.Cpus = -2
		},
		"processes[0].resources.gpu_t4: a process gets GPUs of one model": func(r *wire.CreateLaunchRequest) {
			r.Jobs[0].Processes[0].ResourceRequirements.GpuT4 = 1
		},
		"processes[1].command: missing": func(r *wire.CreateLaunchRequest) { r.Jobs[0].Processes[1].Command = nil },
		"source.git: \"-x\": want":      func(r *wire.CreateLaunchRequest) { r.GitRepo = "-x" },
	} {
		r := ask()
		change(r)
		if _, err := specOf(r); !errors.Is(err, launch.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
}

// TestModels: each model of the wire has its counts for a cluster, and is found by the names that
// drivers have for it.
func TestModels(t *testing.T) {
	if len(models) != 20 {
		t.Errorf("there are %d models", len(models))
	}
	for _, m := range models {
		if m.statuses == nil || m.statuses.Name() != m.count.Name() {
			t.Errorf("%s has no counts for a cluster", m.name)
		}
	}
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB": "a100-40gb", "NVIDIA A100-SXM4-80GB": "a100-80gb", "NVIDIA H100 80GB HBM3": "h100",
		"NVIDIA H200": "h200", "NVIDIA GeForce RTX 3090": "rtx3090", "Tesla T4": "t4", "NVIDIA L4": "l4", "Tesla P4": "p4",
		"Tesla V100-SXM2-16GB": "v100", "Quadro RTX 6000": "rtx6000", "NVIDIA GeForce GTX 1050": "gtx1050",
		"NVIDIA L40": "", "NVIDIA B200": "",
	} {
		got := ""
		if m := modelOf(name); m != nil {
			got = m.name
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestZipID(t *testing.T) {
	for _, text := range []string{"", "x", "12-3", strings.Repeat("0", 63) + "g-1", strings.Repeat("00", 32), strings.Repeat("00", 32) + "-x"} {
		if _, err := parseZipID(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	text := strings.Repeat("0f", 32) + "-77"
	if ref, err := parseZipID(text); err != nil || zipID(ref) != text {
		t.Errorf("%v, %v", ref, err)
	}
}

// FuzzSpecOf: any message becomes a launch that launch.ReadJSON reads, or ErrInvalid.
func FuzzSpecOf(f *testing.F) {
	for _, seed := range []*wire.CreateLaunchRequest{ask(), {Command: []string{"true"}, Replicas: 2}, {Title: "x"}} {
		text, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r wire.CreateLaunchRequest
		if proto.Unmarshal(text, &r) != nil {
			return
		}
		spec, err := specOf(&r)
		if err != nil {
			if !errors.Is(err, launch.ErrInvalid) {
				t.Errorf("got %v", err)
			}
			return
		}
		written, err := spec.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if len(written) > launch.MaxBytes {
			return
		}
		if _, err := launch.ReadJSON(written); err != nil {
			t.Errorf("%s: %v", written, err)
		}
		for _, job := range spec.Jobs {
			jobView(job)
		}
	})
}
