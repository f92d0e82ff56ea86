package cluster

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// a100 makes the software GPUs of a site ones of a model that Clusterfudge knows.
const a100 = "--gpus=soft:2,name=NVIDIA A100-SXM4-40GB"

// project copies the project that is shipped to the directory that hosts share, and returns its
// path there.
func (s *site) project() string {
	s.Helper()
	if err := os.CopyFS(filepath.Join(s.hosts[0].Shared(), "project"), os.DirFS("testdata/project")); err != nil {
		s.Fatal(err)
	}
	return filepath.Join(hosts.SharedDir, "project")
}

// python runs a script on the controller's host in the project, and returns what it has printed.
func (s *site) python(interpreter, script string, environment ...string) string {
	s.Helper()
	return s.pythonOn(s.hosts[0], interpreter, script, environment...)
}

// pythonOn is python on another host.
func (s *site) pythonOn(h *hosts.Host, interpreter, script string, environment ...string) string {
	s.Helper()
	command := h.Command(s.Context(), interpreter, harness.Path(filepath.Join("tests/cluster/testdata", script)))
	command.Dir = s.project()
	command.Env = append(command.Env, append(environment, "PYTHONDONTWRITEBYTECODE=1")...)
	said, err := command.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s", script, err, said)
	}
	return string(said)
}

// TestPythonPackage drives a cluster by the package in python/.
func TestPythonPackage(t *testing.T) {
	python, err := exec.LookPath("python3")
	harness.Need(t, "python", err)
	s := newSite(t, 1, 2, a100)
	said := s.python(python, "drive_phos.py", "PYTHONPATH="+harness.Path("python"))
	s.passes(said, "completes", "is_busy", "is_wrong", "fails", "has_quotas", "executes")
}

// TestClusterfudgeClient drives a cluster by the public client of Clusterfudge, unchanged.
func TestClusterfudgeClient(t *testing.T) {
	t.Parallel() // it waits most of the time
	python, err := harness.Tool("CLUSTERFUDGE_PYTHON")
	harness.Need(t, "clusterfudge", err)
	s := newSite(t, 1, 2, a100)
	s.passes(s.python(python, "drive_clusterfudge.py"), "completes", "is_busy", "says_hello", "refuses")
}

// passes requires that a script has said of each of its tests that it ended well.
func (s *site) passes(said string, names ...string) {
	s.Helper()
	for _, name := range names {
		if !strings.Contains(said, "ok "+name+"\n") {
			s.Errorf("%s did not end well:\n%s", name, said)
		}
	}
}

// TestPythonByTLS reaches a controller by the network, with a token, as cluster.json names it.
func TestPythonByTLS(t *testing.T) {
	python, err := exec.LookPath("python3")
	harness.Need(t, "python", err)
	s := newSite(t, 2, 1)
	added, err := s.cluster.AddUser(t.Context(), &api.AddUserRequest{User: &api.User{
		Name: "ada", Account: "root", Role: "user", AllowRoot: true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	member := map[string]any{}
	if err := json.Unmarshal([]byte(s.hosts[1].Run("cat", "/var/lib/phos-agent/membership.json")), &member); err != nil {
		t.Fatal(err)
	}
	access := map[string]any{
		"version": 1, "cluster": member["cluster"], "addresses": member["controllers"], "ca": member["bundle"],
		"token": added.GetToken(),
	}
	text, err := json.Marshal(access)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.hosts[0].Shared(), "phos", "cluster.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	said := s.pythonOn(s.hosts[1], python, "drive_tls.py",
		"PYTHONPATH="+harness.Path("python"), "XDG_CONFIG_HOME="+hosts.SharedDir)
	s.passes(said, "with_token", "with_wrong_token", "other_cluster")
}
