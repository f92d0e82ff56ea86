package launch

import (
	"reflect"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/worker/jobfile"
)

func TestPolicy(t *testing.T) {
	five := 5
	for _, test := range []struct {
		value string
		want  jobfile.Checkpoint
		wrong string
	}{
		{value: "/data/ckpt", want: jobfile.Checkpoint{Dir: "/data/ckpt", Every: "10m"}},
		{value: "/c,on=drain", want: jobfile.Checkpoint{Dir: "/c", On: []string{"drain"}}},
		{
			value: "/c/{rank},every=90s,keep=5,bandwidth=1MiB,on=exit-signal+drain",
			want: jobfile.Checkpoint{
				Dir: "/c/{rank}", Every: "90s", Keep: &five, Bandwidth: "1MiB", On: []string{"exit-signal", "drain"},
			},
		},
		{value: ",every=1m", wrong: "begins with the directory"},
		{value: "/c,evry=1m", wrong: `no key "evry"; the keys are every, keep, bandwidth, on and restore`},
		{value: "/c,every", wrong: `"every" is not KEY=VALUE`},
		{value: "/c,every=soon", wrong: `every: "soon" is no time span`},
		{value: "/c,keep=few", wrong: "keep: it must be a whole number"},
		{value: "/c,keep=-1", wrong: "keep: it must not be negative"},
		{value: "/c,on=exit", wrong: `on: "exit" is no occasion`},
	} {
		var policy Policy
		err := policy.Set(test.value)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%s: error %v, want %q in it", test.value, err, test.wrong)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(*policy.section, test.want) {
			t.Errorf("%s: got %+v, %v; want %+v", test.value, policy.section, err, test.want)
		}
	}
}

// TestJobText: the worker's parser reads what was written, and an earlier PHOS_JOB stays in effect
// where the flags say nothing.
func TestJobText(t *testing.T) {
	var policy Policy
	if err := policy.Set("/data/<a b>: #c,every=5m"); err != nil {
		t.Fatal(err)
	}
	name := `it's "digits": #1 & more`
	text, err := jobText("log_path: phos.log\njob_name: earlier\n", name, policy)
	if err != nil {
		t.Fatal(err)
	}
	got, err := jobfile.ParseVariable(text)
	want := jobfile.File{
		JobName:    name,
		LogPath:    "phos.log",
		Checkpoint: &jobfile.Checkpoint{Dir: "/data/<a b>: #c", Every: "5m"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, %v; want %+v", text, got, err, want)
	}
	if _, err := jobText("job_nam: x", "", policy); err == nil {
		t.Error("an earlier PHOS_JOB that cannot be parsed was replaced")
	}
	if _, err := jobText("", "line\nfeed", Policy{}); err == nil || !strings.HasPrefix(err.Error(), "--name: ") {
		t.Errorf("name with a line feed: %v", err)
	}
}

func TestGPUs(t *testing.T) {
	reply := &api.StatusReply{
		Daemon: &api.DaemonStatus{Gpus: "cuda"},
		Gpus: []*api.GPU{
			{Index: 0, Uuid: "GPU-aaaa-1", Name: "NVIDIA H200"},
			{Index: 1, Uuid: "GPU-aabb-2", Name: "NVIDIA H200"},
		},
	}
	for _, test := range []struct{ list, want, wrong string }{
		{"1", "1", ""},
		{"1, 0", "1,0", ""},
		{"GPU-aab", "GPU-aabb-2", ""},
		{"2", "", "phosd serves no GPU 2; it serves GPUs 0 to 1"},
		{"0,GPU-aaaa", "", "GPU 0 is named twice"},
		{"GPU-aa", "", "several UUIDs begin with GPU-aa"},
		{"all", "", `not "all"`},
		{"0,", "", `not ""`},
	} {
		got, err := chooseGPUs(test.list, reply.GetGpus())
		if got != test.want || (err == nil) != (test.wrong == "") ||
			err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: got %q, %v; want %q, %q", test.list, got, err, test.want, test.wrong)
		}
	}
	for _, test := range []struct {
		offer, visible string
		limited        bool
		want           string
	}{
		{"cuda", "", false, "2 GPUs (NVIDIA H200)"},
		{"cuda", "1", true, "GPU 1 of 2 (NVIDIA H200)"},
		{"soft:2", "0,1", true, "software GPUs 0,1 of 2"},
		{"soft:2", "", true, "no GPU of 2 (CUDA_VISIBLE_DEVICES is empty)"},
	} {
		reply.Daemon.Gpus = test.offer
		if got := gpuText(reply, test.visible, test.limited); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestSocket(t *testing.T) {
	t.Setenv(api.SocketVariable, "/run/env.sock")
	for _, test := range []struct{ file, want string }{
		{"", "/run/env.sock"},
		{"job_name: x\n", "/run/env.sock"},
		{"daemon_addr: unix:///run/a.sock\n", "/run/a.sock"},
		{"daemon_addr: unix:/run/a.sock\n", "/run/a.sock"},
		{"daemon_addr: ./a.sock\n", "./a.sock"},
		{"daemon_addr: localhost:9000\n", "/run/env.sock"},
		{"daemon_addr: [\n", "/run/env.sock"},
	} {
		t.Chdir(t.TempDir())
		if test.file != "" {
			writeFile(t, jobfile.Name, test.file)
		}
		if got := socket(); got != test.want {
			t.Errorf("%q: got %s, want %s", test.file, got, test.want)
		}
	}
}

func TestSetuidDropsPreload(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "own", "")
	if dropsPreload("own") {
		t.Error("a plain file: got true, want false")
	}
}
