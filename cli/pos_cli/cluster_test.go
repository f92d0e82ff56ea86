package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/api/apitest"
	"github.com/phos-gpu/phos/cluster/launch"
	phosd "github.com/phos-gpu/phos/daemon/api"
)

// inCluster starts a cluster with one node, for the verbs of this process.
func inCluster(t *testing.T) (*apitest.Cluster, *apitest.Controller) {
	t.Helper()
	c := apitest.New(t)
	c.Nodes = []*api.Node{{
		Name: "n1", State: "ready", Labels: map[string]string{"rack": "r3"},
		Inventory: &api.Inventory{Cpus: 8, MemoryBytes: 1 << 36, Gpus: []*api.GPU{
			{Name: "A100", MemoryBytes: 80 << 30},
			{Index: 1, Name: "A100", MemoryBytes: 80 << 30, Launch: "l-1"},
		}},
	}}
	k := c.Listen(t)
	t.Setenv(api.ClusterVariable, k.Socket)
	t.Setenv(phosd.SocketVariable, filepath.Join(t.TempDir(), "none.sock"))
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	return c, k
}

// phos runs a command line and returns its outputs.
func phos(t *testing.T, want int, arguments ...string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	if status := run("phos", arguments, &out, &err); status != want {
		t.Errorf("phos %q: status %d, want %d:\n%s%s", arguments, status, want, &out, &err)
	}
	return out.String(), err.String()
}

func TestLaunchCommand(t *testing.T) {
	c, _ := inCluster(t)
	if err := os.WriteFile("train.py", []byte("print()"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := phos(t, 0, "launch", "--name", "digits", "--replicas", "2..4", "--gpus", "1", "--gpu-model", "a100,h100",
		"--memory", "1GiB", "--env", "A=b=c", "--time-limit", "12h", "--retries", "3", "--retry-on", "1,2", "--port", "web",
		"--no-queue", "--", "python3", "train.py", "--epochs", "3")
	for _, want := range []string{"launch 1 (digits), l-0000000001, is queued", "phos logs -f l-0000000001"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in %s", want, stdout)
		}
	}
	if !strings.Contains(stderr, "sent 1 file") || c.Code("1") == nil {
		t.Errorf("the directory was not sent: %s", stderr)
	}
	spec := c.Spec("1")
	job := spec.Jobs[0]
	process := job.Processes[0]
	switch {
	case job.Replicas != launch.Replicas{Min: 2, Max: 4}, job.Retries != 3, !slices.Equal(job.RetryOn, []int{1, 2}),
		spec.Queue != launch.Refuse, process.Resources.GPUs != 1, process.Variables["A"]+spec.Variables["A"] != "b=c",
		!slices.Equal(process.Resources.GPUModels, []string{"a100", "h100"}), process.Resources.Memory != 1<<30,
		!slices.Equal(process.Command, []string{"python3", "train.py", "--epochs", "3"}):
		t.Errorf("description %+v", spec)
	}
	// The same directory is not sent again.
	if _, stderr = phos(t, 0, "launch", "--", "true"); strings.Contains(stderr, "sent") {
		t.Errorf("the directory was sent again: %s", stderr)
	}
	if _, _ = phos(t, 0, "launch", "--no-code", "--", "true"); c.Code("3") != nil {
		t.Error("the directory was sent in spite of --no-code")
	}
	if stdout, _ = phos(t, 0, "launch", "--dry-run", "--", "true"); !strings.Contains(stdout, "could run it") || c.Created() != 3 {
		t.Errorf("dry run: %s, %d launches", stdout, c.Created())
	}
}

func TestLaunchFile(t *testing.T) {
	c, _ := inCluster(t)
	text := "name = \"f\"\n[[jobs]]\nname = \"main\"\n[[jobs.processes]]\ncommand = [\"true\"]\n"
	for name, text := range map[string]string{"f.toml": text, "wrong.toml": text + "gpu = 1\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _ := phos(t, 0, "launch", "--json", "f.toml")
	var created []map[string]any
	if err := json.Unmarshal([]byte(stdout), &created); err != nil || created[0]["name"] != "f" ||
		created[0]["submitted_unix_ms"] != float64(1_700_000_000_000) {
		t.Errorf("%v: %s", err, stdout)
	}
	if _, stderr := phos(t, 1, "launch", "wrong.toml"); !strings.Contains(stderr, "wrong.toml: ") || !strings.Contains(stderr, "gpu") {
		t.Error(stderr)
	}
	if _, stderr := phos(t, exitUsage, "launch", "--gpus", "1", "f.toml"); !strings.Contains(stderr, "a launch file says everything") {
		t.Error(stderr)
	}
	if _, stderr := phos(t, 1, "launch", "none.toml"); !strings.Contains(stderr, "none.toml") {
		t.Error(stderr)
	}
	if c.Created() != 1 {
		t.Errorf("%d launches", c.Created())
	}
	// What show prints can be launched.
	if err := os.WriteFile("again.json", []byte(first(phos(t, 0, "show", "--spec", "f"))), 0o600); err != nil {
		t.Fatal(err)
	}
	phos(t, 0, "launch", "again.json")
}

func first(stdout, _ string) string { return stdout }

func TestWrongLines(t *testing.T) {
	inCluster(t)
	for line, want := range map[string]string{
		"launch":                          "name a launch file, or a command",
		"launch --replicas none -- true":  "--replicas takes N",
		"launch --gpus x -- true":         "want a whole number",
		"launch --array x -- true":        "want NAME=VALUE1,VALUE2",
		"launch --gpu 1 -- true":          "did you mean --gpus?",
		"launch f.toml --wait":            `"--wait" follows the launch file`,
		"logs":                            "name the launch: phos logs ID",
		"show 1 2":                        `"2" is one too many`,
		"stop":                            "name the launch: phos stop ID",
		"wait":                            "name the launch: phos wait ID",
		"node lst":                        "did you mean node list?; see: phos help node",
		"node cordon":                     "name one node: phos node cordon NAME",
		"node label n1 rack":              "want KEY=VALUE",
		"node token --valid 0s":           "--valid takes a time",
		"user add":                        "name one user",
		"lunch -- true":                   "did you mean phos launch?",
		"ps --wath":                       "did you mean --watch?",
		"launch --env NOT_SET_1 -- true":  "is not set here",
		"launch --retry-on x -- true":     "is no exit code",
		"launch --memory much -- true":    "want a size",
		"launch --time-limit -1 -- true ": "want a time above 0",
	} {
		if _, stderr := phos(t, exitUsage, strings.Fields(line)...); !strings.Contains(stderr, want) {
			t.Errorf("%s: want %q, got %s", line, want, stderr)
		}
	}
	for line, want := range map[string]string{
		"show 9": "no such launch", "why 9": "no such launch", "logs 9": "no such launch", "wait 9": "no such launch",
		"stop 9": "stop 9: no such launch", "node show x": "not found", "node drain x": "not found",
		"user token x": "not found", "user remove x": "not found", "rerun 9": "no such launch",
		"launch --on-failure dance -- true": `want "stop"`,
	} {
		if _, stderr := phos(t, 1, strings.Fields(line)...); !strings.Contains(stderr, want) {
			t.Errorf("%s: want %q, got %s", line, want, stderr)
		}
	}
}

func TestStatusOfLaunch(t *testing.T) {
	c, _ := inCluster(t)
	for range 3 {
		phos(t, 0, "launch", "--no-code", "--", "true")
	}
	c.End("1", 0)
	c.End("2", 7)
	phos(t, 0, "wait", "1")
	if stdout, _ := phos(t, 7, "wait", "1", "2"); !strings.Contains(stdout, "launch 2: failed (7): a process exited with 7") {
		t.Error(stdout)
	}
	phos(t, 0, "stop", "3")
	phos(t, 130, "wait", "3")
	phos(t, 1, "stop", "3")
	phos(t, 0, "rerun", "3")
	phos(t, 0, "suspend", "4")
	phos(t, 0, "resume", "4")
	phos(t, 1, "rerun", "4")
	stdout, _ := phos(t, 0, "show", "2")
	if !strings.Contains(stdout, "failed (7)") {
		t.Error(stdout)
	}
}

// TestWaitFollows: wait goes on when the controller loses the lead, and ends with the launch.
func TestWaitFollows(t *testing.T) {
	c, k := inCluster(t)
	other := c.Listen(t)
	phos(t, 0, "launch", "--no-code", "--", "true")
	var watches atomic.Int64
	k.Fail(func(method string) error {
		if method == api.Launches_Watch_FullMethodName && watches.Add(1) == 1 {
			k.Follow(other.Socket)
		}
		return nil
	})
	other.Fail(func(method string) error {
		if method == api.Launches_Watch_FullMethodName {
			c.End("1", 3)
		}
		return nil
	})
	phos(t, 3, "wait", "1")
}

func TestLogs(t *testing.T) {
	c, _ := inCluster(t)
	phos(t, 0, "launch", "--no-code", "--replicas", "2", "--", "true")
	c.Print("1",
		&api.LogLine{UnixNs: 1e9, Job: "main", Text: []byte("one\x1b[31m")},
		&api.LogLine{UnixNs: 2e9, Job: "main", Replica: 1, Stderr: true, Text: []byte("two")},
		&api.LogLine{UnixNs: 2e9, Job: "main", Dropped: 4, Text: []byte("the disk is full")},
		&api.LogLine{UnixNs: 2e9, Job: "main", Text: []byte("three")})
	stdout, stderr := phos(t, 0, "logs", "1")
	if stdout != "main.0.0: one\x1b[31m\nmain.0.0: three\n" || !strings.Contains(stderr, "main.1.0: two\n") ||
		!strings.Contains(stderr, "phos: 4 lines of main.0 missing here: the disk is full\n") {
		t.Errorf("%q, %q", stdout, stderr)
	}
	stdout, _ = phos(t, 0, "logs", "--tail", "1", "--timestamps", "1/main.0.0")
	if stdout != "1970-01-01T00:00:02.000Z three\n" {
		t.Errorf("%q", stdout)
	}
}

func TestEventsAndWhy(t *testing.T) {
	c, _ := inCluster(t)
	phos(t, 0, "launch", "--no-code", "--", "true")
	c.Because("1", "2 GPUs are missing", "a\x1b[2Jb")
	if stdout, _ := phos(t, 0, "why", "1"); stdout != "launch 1 is queued\n  2 GPUs are missing\n  a?[2Jb\n" {
		t.Errorf("%q", stdout)
	}
	c.Happen(&api.Event{UnixMs: 1, Node: "n1", Kind: "node ready"})
	stdout, _ := phos(t, 0, "events", "--json")
	if strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, `"node":"n1"`) || !strings.Contains(stdout, `"unix_ms":1}`) {
		t.Error(stdout)
	}
}

func TestPS(t *testing.T) {
	c, _ := inCluster(t)
	if stdout, _ := phos(t, 0, "ps"); !strings.Contains(stdout, "no launches") {
		t.Error(stdout)
	}
	phos(t, 0, "launch", "--no-code", "--name", "digits", "--gpus", "2", "--", "true")
	c.Start("1", "n1")
	phos(t, 0, "launch", "--no-code", "--name", "old", "--", "true")
	c.End("2", 0)
	stdout, _ := phos(t, 0, "ps")
	if !strings.Contains(stdout, "digits") || !strings.Contains(stdout, "n1") || strings.Contains(stdout, "old") {
		t.Error(stdout)
	}
	stdout, _ = phos(t, 0, "ps", "-a", "--json")
	var all []map[string]any
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all) != 2 || all[0]["kind"] != "launch" ||
		all[0]["result"] != "completed" || all[1]["phase"] != "running" {
		t.Errorf("%v: %s", err, stdout)
	}
	phos(t, exitNoDaemon, "ps", "--local")
}

// TestPSWithoutController: with neither controller nor phosd, the error is that of the cluster.
func TestPSWithoutController(t *testing.T) {
	_, k := inCluster(t)
	k.Kill()
	if _, stderr := phos(t, exitNoDaemon, "ps"); !strings.Contains(stderr, "tried for 3s") {
		t.Error(stderr)
	}
}

// TestManyLaunches: a table of 10,000 launches has them all.
func TestManyLaunches(t *testing.T) {
	c, _ := inCluster(t)
	for i := range 10_000 {
		c.Add(&api.Launch{Name: fmt.Sprintf("launch-%d", i)})
	}
	stdout, _ := phos(t, 0, "ps")
	if lines := strings.Count(stdout, "\n"); lines != 10_001 {
		t.Errorf("%d lines", lines)
	}
}

func TestNodesAndUsers(t *testing.T) {
	c, _ := inCluster(t)
	for _, test := range []struct{ line, want string }{
		{"node list", "n1    ready  2     1     A100"},
		{"node show n1", "1    A100  80"},
		{"node cordon n1", "node n1 is ready, cordoned\n"},
		{"node drain n1", "node n1 is ready, draining\n"},
		{"node uncordon n1", "node n1 is ready\n"},
		{"node label n1 zone=z rack-", "node n1 is ready\n"},
		{"node token --valid 10m", "pos_cli --start --target agent --join phosjoin_1test@a:7411"},
		{"user add ada --role admin", "phos_1test"},
		{"user token ada", "phos_1test"},
		{"user list", "ada   ada      admin"},
		{"user remove ada", "user ada was removed"},
		{"node remove --json n1", `"removed": "n1"`},
		{"node list", "no nodes; phos node token"},
	} {
		if stdout, _ := phos(t, 0, strings.Fields(test.line)...); !strings.Contains(stdout, test.want) {
			t.Errorf("%s: want %q, got:\n%s", test.line, test.want, stdout)
		}
	}
	if len(c.Nodes)+len(c.Users) != 0 {
		t.Errorf("left: %v, %v", c.Nodes, c.Users)
	}
}

// TestWithoutCluster: the error says how to get one.
func TestWithoutCluster(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv(api.ClusterVariable, "")
	if _, err := os.Lstat(api.ControllerSocket); err == nil {
		t.Skip("a controller runs on this machine")
	}
	if _, stderr := phos(t, exitNoDaemon, "why", "1"); !strings.Contains(stderr, "pos_cli --start --target cluster") {
		t.Error(stderr)
	}
}

func TestStatusOfCluster(t *testing.T) {
	inCluster(t)
	phos(t, 0, "launch", "--no-code", "--", "true")
	stdout, _ := phos(t, 0, "--status", "--target", "cluster")
	for _, want := range []string{"cluster c-1, epoch 3", "controller at a:7411 leads", "you are ada", "1 launch: queued", "n1    ready"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	if again, _ := phos(t, 0, "status"); again != stdout {
		t.Errorf("status says:\n%s", again)
	}
	stdout, _ = phos(t, 0, "status", "--json")
	var status struct {
		Caller   struct{ Role string }
		Launches map[string]int
	}
	if err := json.Unmarshal([]byte(stdout), &status); err != nil || status.Caller.Role != "admin" || status.Launches["queued"] != 1 {
		t.Errorf("%v: %s", err, stdout)
	}
}

func TestTargets(t *testing.T) {
	for line, want := range map[string]string{
		"--start --target moon":                            `target "moon" is not known; there are: daemon, cluster, agent`,
		"--stop --target moon":                             "is not known",
		"--status --target moon":                           "is not known",
		"--start --join x@h:1":                             "--join needs --target agent",
		"--start --target agent --listen :1":               "--listen and --controller-config need --target cluster",
		"--start --node x":                                 "--node and --address need",
		"--stop --target agent --force":                    "phos node drain drains a node",
		"--start --target cluster --foreground --gpus s:1": "about phosd alone",
	} {
		if _, stderr := phos(t, exitUsage, strings.Fields(line)...); !strings.Contains(stderr, want) {
			t.Errorf("%s: want %q, got %s", line, want, stderr)
		}
	}
}

// TestBothStops: stop means a launch, and --stop phosd.
func TestBothStops(t *testing.T) {
	for line, want := range map[string]string{
		"help stop": "phos stop ID...: end a launch", "help --stop": "phos --stop", "stop --help": "phos stop ID...: end a launch",
		"--stop --help": "phos --stop",
	} {
		if stdout, _ := phos(t, 0, strings.Fields(line)...); !strings.HasPrefix(stdout, want) {
			t.Errorf("%s: %.80s", line, stdout)
		}
	}
}
