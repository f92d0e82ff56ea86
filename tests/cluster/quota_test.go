package cluster

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestQuota: what users do is limited as administrators say, and each refusal says by what.
func TestQuota(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSite(t, 2, 2)
	admin, away := s.hosts[0], s.hosts[1]
	token, login := s.invite("add", "ada", "--account", "nobody")
	s.write(away, awayToken, token+"\n")
	s.accept(away, append(login, "--token-file", awayToken)...)
	if said := admin.RunCLI("quota", "list"); !strings.Contains(said, "(default)  none") {
		t.Errorf("without quotas: %s", said)
	}
	admin.RunCLI("quota", "set", "--default", "--gpus", "1", "--launches", "1", "--code", "100KiB")
	admin.RunCLI("quota", "set", "root", "--gpus", "none", "--launches", "none")
	gpu := []string{"launch", "--no-code", "--gpus", "1"}
	s.accept(away, append(gpu, "--name", "first", "--", "sleep", "1000")...)
	s.awaitRunning("first")
	s.accept(away, append(gpu, "--name", "second", "--", "sleep", "1000")...)
	harness.Eventually(t, "the second launch is over quota", func() bool {
		return strings.Contains(s.accept(away, "why", "second"),
			"over quota: 2 of 1 GPUs used by nobody with this launch; launches first have 1")
	})
	for want, command := range map[string][]string{
		"over quota: 1 launches of nobody wait, 1 more are asked for, and 1 may wait": append(gpu, "--", "true"),
		"over quota: the launch needs 2 GPUs at once, and nobody may have 1":          {"launch", "--no-code", "--gpus", "2", "--", "true"},
		"only an administrator may set quotas":                                        {"quota", "set", "nobody", "--gpus", "9"},
		"only an administrator may remove quotas":                                     {"quota", "remove", "root"},
		"--gpus takes N, not \"-1\": want a number of 0 or more, or none":             {"quota", "set", "nobody", "--gpus", "-1"},
		"name a limit: --gpus, --launches or --code":                                  {"quota", "set", "nobody"},
	} {
		if said := s.refuse(away, command...); !strings.Contains(said, want) {
			t.Errorf("%v: %s", command, said)
		}
	}
	random := make([]byte, 200<<10)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	s.accept(away, "stop", "second")
	s.await("second", "ended")
	s.write(away, "/var/lib/code/data", string(random))
	s.write(away, "/var/lib/small/data", "x")
	launch := func(dir string) (string, error) {
		command := away.CLI(s.Context(), "launch", "--name", "small", "--gpus", "1", "--", "cat", "data")
		command.Env, command.Dir = append(command.Env, "XDG_CONFIG_HOME="+awayHome), dir
		said, err := command.CombinedOutput()
		return string(said), err
	}
	if said, err := launch("/var/lib/code"); err == nil || !strings.Contains(said, "over quota: the code has 20") ||
		!strings.Contains(said, "nobody has 0 B of code here already, and may have 100 KiB") {
		t.Errorf("200 KiB of code: %s", said)
	}
	if said, err := launch("/var/lib/small"); err != nil {
		t.Error(said)
	}
	if said := s.accept(away, "quota", "list"); strings.Contains(said, "root") || strings.Contains(said, "default") ||
		!strings.Contains(said, "nobody") || !strings.Contains(said, "1/1") {
		t.Errorf("a user sees: %s", said)
	}
	before := s.quotas()
	s.controllers[0].Kill()
	s.controllers[0].Start()
	harness.Eventually(t, "the next controller knows the quotas", func() bool { return s.quotas() == before })
	admin.RunCLI("quota", "remove", "--default")
	admin.RunCLI("quota", "remove", "root")
	if said := admin.RunCLI("quota", "list"); strings.Contains(said, "/1") || strings.Contains(said, "*") {
		t.Errorf("after the removal: %s", said)
	}
	s.await("small", "ended")
}

// quotas returns the limits as an administrator sees them; empty while no controller answers.
func (s *site) quotas() string {
	command := s.hosts[0].CLI(s.Context(), "quota", "list", "--json")
	text, err := command.Output()
	var all []struct {
		Account string
		Own     map[string]any
	}
	if err != nil || json.Unmarshal(text, &all) != nil {
		return ""
	}
	kept, _ := json.Marshal(all) // maps and numbers can always be written
	return string(kept)
}
