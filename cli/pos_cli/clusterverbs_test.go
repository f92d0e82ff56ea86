package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
)

// asking are command lines of all verbs that ask the cluster.
var asking = []string{
	"launch --no-code -- true", "status", "logs 1", "why 1", "events", "wait 1", "show 1", "stop 1", "suspend 1", "resume 1",
	"rerun 1", "exec 1 -- true", "top --once", "node list", "node show n1", "node label n1 a=b", "node cordon n1",
	"node uncordon n1", "node drain n1", "node remove n1", "node token", "user list", "user add ada", "user token ada",
	"user remove ada", "quota list", "quota set ada --gpus 1", "quota remove ada",
}

// TestAllVerbsAsk: no verb about the cluster is missing in asking.
func TestAllVerbsAsk(t *testing.T) {
	found := 0
	stdout, _ := phos(t, 0, "help")
	for line := range strings.Lines(stdout) {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "phos "))
		if len(words) == 0 || !slices.Contains([]string{"node", "user", "quota"}, words[0]) || strings.Contains(words[1], "|") {
			continue
		}
		found++
		verb := words[0] + " " + words[1]
		if !slices.ContainsFunc(asking, func(each string) bool { return strings.HasPrefix(each, verb) }) {
			t.Errorf("%s is not tested", verb)
		}
	}
	if found < 10 {
		t.Errorf("help shows %d verbs of groups:\n%s", found, stdout)
	}
}

// TestNotLoggedIn: with a cluster that is named and no token for it, each verb says how to get one.
func TestNotLoggedIn(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv(api.ClusterVariable, "127.0.0.1:1")
	for _, line := range asking {
		if _, stderr := phos(t, exitNoDaemon, strings.Fields(line)...); !strings.Contains(stderr, "there is no token for it") ||
			!strings.Contains(stderr, "phos login") {
			t.Errorf("%s: %s", line, stderr)
		}
	}
	t.Setenv(api.ClusterVariable, "somewhere")
	for _, line := range asking {
		if _, stderr := phos(t, 1, strings.Fields(line)...); !strings.Contains(stderr, `is "somewhere": want HOST:PORT`) {
			t.Errorf("%s: %s", line, stderr)
		}
	}
}

// TestRefusedToken: a token that the cluster does not take ends each verb with what to do.
func TestRefusedToken(t *testing.T) {
	_, k := inCluster(t)
	k.Fail(func(string) error { return api.ErrUnknownCaller })
	for _, line := range asking {
		want := 1
		if strings.HasPrefix(line, "exec") {
			want = 255 // others are those of commands
		}
		_, stderr := phos(t, want, strings.Fields(line)...)
		if !strings.Contains(stderr, api.ErrUnknownCaller.Error()) {
			t.Errorf("%s: %s", line, stderr)
		}
	}
}

// TestMoreWrongLines: each verb says which arguments it takes.
func TestMoreWrongLines(t *testing.T) {
	inCluster(t)
	for line, want := range map[string]string{
		"exec":                       "name the process and the command: phos exec ID -- CMD",
		"exec 1":                     "name the process and the command",
		"exec -- true":               "name the process and the command",
		"suspend":                    "name the launch: phos suspend ID",
		"resume":                     "name the launch: phos resume ID",
		"rerun":                      "name the launch: phos rerun ID",
		"rerun 1 2":                  `"2" is one too many`,
		"why":                        "name the launch: phos why ID",
		"why 1 2":                    `"2" is one too many`,
		"events 1 2":                 `"2" is one too many`,
		"logs 1 2":                   `"2" is one too many`,
		"logs --tail x 1":            "--tail",
		"node show":                  "name one node",
		"node drain":                 "name one node",
		"node label n1":              "KEY=VALUE",
		"node remove":                "name one node",
		"user remove":                "name one user",
		"user token":                 "name one user",
		"quota set":                  "name one account",
		"quota set ada":              "name a limit: --gpus, --launches or --code",
		"quota set ada --gpus -1":    "want a number of 0 or more, or none",
		"quota set ada --code much":  "want a size as 512MiB or 2GiB, 0, or none",
		"quota set --default ada":    "name an account or --default, not both",
		"quota remove":               "name one account",
		"quota remove --default ada": "name an account or --default, not both",
		"login":                      "name one controller: phos login HOST:PORT",
		"login a b":                  "name one controller",
		"login gpu-1":                `"gpu-1" is no address: want HOST:PORT`,
		"login gpu-1:7411":           "--ca: ",
		"login gpu-1:7411 --ca 3f":   "--ca: ",
		"logout now":                 `unexpected argument "now"`,
	} {
		if _, stderr := phos(t, exitUsage, strings.Fields(line)...); !strings.Contains(stderr, want) {
			t.Errorf("%s: want %q, got %s", line, want, stderr)
		}
	}
	for line, want := range map[string]string{
		"suspend 9": "suspend 9: no such launch", "resume 9": "resume 9: no such launch", "node label x a=b": "not found",
		"node remove x": "not found", "node cordon x": "not found", "node cordon n1 x": "not found",
	} {
		if _, stderr := phos(t, 1, strings.Fields(line)...); !strings.Contains(stderr, want) {
			t.Errorf("%s: want %q, got %s", line, want, stderr)
		}
	}
	if _, stderr := phos(t, 255, "exec", "9", "--", "true"); !strings.Contains(stderr, "no such launch") {
		t.Error(stderr)
	}
}

// TestNames: a launch is named by its id, its number or its name; of several with one name, the
// newest is meant, and wait stays with the one that it began with.
func TestNames(t *testing.T) {
	c, k := inCluster(t)
	for range 2 {
		phos(t, 0, "launch", "--no-code", "--name", "digits", "--", "true")
	}
	for name, want := range map[string]string{"1": "(number 1)", "l-0000000001": "(number 1)", "digits": "(number 2)"} {
		if stdout, _ := phos(t, 0, "show", name); !strings.Contains(stdout, want) {
			t.Errorf("%s: no %s in %s", name, want, stdout)
		}
	}
	var once atomic.Bool
	k.Fail(func(method string) error {
		if method == api.Launches_Watch_FullMethodName && once.CompareAndSwap(false, true) {
			c.Add(&api.Launch{Name: "digits"}) // it does not end
			c.End("2", 4)
		}
		return nil
	})
	if stdout, _ := phos(t, 4, "wait", "digits"); !strings.HasPrefix(stdout, "launch 2 (digits): failed (4)") {
		t.Error(stdout)
	}
}

// TestWaitStatus: wait has the status of the first named launch that did not complete, and waits
// for all.
func TestWaitStatus(t *testing.T) {
	c, _ := inCluster(t)
	for status := range 4 {
		phos(t, 0, "launch", "--no-code", "--", "true")
		c.End(fmt.Sprint(status+1), int32(status*100))
	}
	stdout, _ := phos(t, 200, "wait", "1", "3", "2")
	if strings.Count(stdout, "\n") != 3 {
		t.Errorf("not all are told: %s", stdout)
	}
	phos(t, 100, "wait", "2", "3", "2")
	phos(t, 1, "wait", "4") // no program has the status 300
}

// TestLogsFollow: logs -f prints what comes, and ends with the launch, also when the controller
// loses the lead.
func TestLogsFollow(t *testing.T) {
	c, k := inCluster(t)
	phos(t, 0, "launch", "--no-code", "--", "true")
	c.Print("1", &api.LogLine{UnixNs: 1, Job: "main", Text: []byte("one")})
	asked := make(chan struct{}, 1)
	k.Fail(func(method string) error {
		if method == api.Launches_Logs_FullMethodName {
			asked <- struct{}{}
		}
		return nil
	})
	go func() {
		<-asked
		c.Print("1", &api.LogLine{UnixNs: 2, Job: "main", Text: []byte("two")})
		c.Print("1", &api.LogLine{UnixNs: 3, Job: "main", Text: []byte("three")})
		c.End("1", 7)
	}()
	if stdout, stderr := phos(t, 0, "logs", "-f", "1"); stdout != "one\ntwo\nthree\n" || stderr != "" {
		t.Errorf("%q, %q", stdout, stderr)
	}
}

// TestExecStatus: exec has the status of its command, and prints what it prints.
func TestExecStatus(t *testing.T) {
	c, _ := inCluster(t)
	phos(t, 0, "launch", "--no-code", "--name", "digits", "--", "true")
	for _, test := range []struct {
		end    *api.ExecEnd
		status int
		says   string
	}{
		{&api.ExecEnd{}, 0, ""},
		{&api.ExecEnd{Code: 3}, 3, ""},
		{&api.ExecEnd{Signal: 15}, 128 + 15, ""},
		{&api.ExecEnd{Code: 127, Error: "there is no program x"}, 127, "digits/main.0: there is no program x"},
	} {
		c.Ends = test.end
		for _, line := range []string{"exec digits/main.0 -- echo a", "exec digits/main.0 echo a"} {
			stdout, stderr := phos(t, test.status, strings.Fields(line)...)
			if stdout != "echo a\n" || !strings.Contains(stderr, test.says) || (test.says == "") != (stderr == "") {
				t.Errorf("%s: %q, %q", line, stdout, stderr)
			}
		}
	}
	c.End("digits", 0)
	if _, stderr := phos(t, 255, "exec", "digits", "--", "true"); !strings.Contains(stderr, "nothing runs there") {
		t.Error(stderr)
	}
}

// TestJSON: what scripts read is JSON, with names that stay.
func TestJSON(t *testing.T) {
	c, _ := inCluster(t)
	phos(t, 0, "launch", "--no-code", "--name", "digits", "--", "true")
	c.Users = []*api.User{{Name: "ada", Role: "user"}}
	for _, test := range []struct{ line, keys string }{
		{"ps --json", "id number name owner phase kind"},
		{"show digits --json", "id number name replicas images history"},
		{"why digits --json", "launch reasons"},
		{"suspend digits --json", "id phase"},
		{"resume digits --json", "id phase"},
		{"node list --json", "name state labels inventory cordoned draining"},
		{"node show n1 --json", "name inventory"},
		{"node cordon --json n1", "name cordoned labels"},
		{"node drain --json n1", "name draining launches"},
		{"node uncordon --json n1", "name cordoned"},
		{"node label --json n1 a=b", "name labels"},
		{"user list --json", "name account role expires_unix_ms"},
		{"events --json", "unix_ms launch node kind text number"},
		{"status --json", "cluster_id epoch nodes launches caller"},
		{"stop digits --json", "id phase result status"},
		{"rerun digits --json", "id number phase"},
	} {
		stdout, _ := phos(t, 0, strings.Fields(test.line)...)
		var value any
		if err := json.NewDecoder(strings.NewReader(stdout)).Decode(&value); err != nil {
			t.Errorf("%s: %v: %s", test.line, err, stdout)
			continue
		}
		if list, isList := value.([]any); isList && len(list) > 0 {
			value = list[0]
		}
		object, _ := value.(map[string]any)
		for key := range strings.FieldsSeq(test.keys) {
			if _, found := object[key]; !found {
				t.Errorf("%s: no %q in %s", test.line, key, stdout)
			}
		}
	}
	phos(t, 0, "stop", "2")
	stdout, _ := phos(t, 130, "wait", "--json", "1", "2")
	if lines := strings.Count(stdout, "\n"); lines != 2 || !strings.Contains(stdout, `"result":"stopped"`) {
		t.Errorf("%d lines of launches that have ended: %s", lines, stdout)
	}
}

// TestLogout: logout forgets the token, and says what it has removed.
func TestLogout(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	if stdout, _ := phos(t, 0, "logout"); stdout != "no login is kept here\n" {
		t.Error(stdout)
	}
	path := filepath.Join(home, "phos", "cluster.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout, _ := phos(t, 0, "logout"); !strings.Contains(stdout, path+" was removed") {
		t.Error(stdout)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
}

// TestLoginToken: a token that is none is refused before a controller is asked.
func TestLoginToken(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	ca := strings.Repeat("3f", 32)
	for content, want := range map[string]string{"": "read the token: there is none", "no token\n": "read the token: "} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr := phos(t, 1, "login", "127.0.0.1:1", "--ca", ca, "--token-file", path); !strings.Contains(stderr, want) {
			t.Errorf("%q: %s", content, stderr)
		}
	}
	if _, stderr := phos(t, 1, "login", "127.0.0.1:1", "--ca", ca, "--token-file", "/none/token"); !strings.Contains(stderr, "/none/token") {
		t.Error(stderr)
	}
}
