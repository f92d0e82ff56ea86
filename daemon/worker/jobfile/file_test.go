package jobfile

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/config"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       File
		wrong      string // what the error must hold; empty: no error
	}{
		{name: "empty"},
		{name: "comment only", text: "# nothing\n"},
		{
			name: "all", text: "job_name: resnet\ndaemon_addr: /tmp/x.sock\nlog_path: phos.log\n",
			want: File{JobName: "resnet", DaemonAddr: "/tmp/x.sock", LogPath: "phos.log"},
		},
		{name: "number as name", text: "job_name: 17\n", want: File{JobName: "17"}},
		{name: "loopback", text: "daemon_addr: 127.0.0.1:5000\n", want: File{DaemonAddr: "127.0.0.1:5000"}},
		{name: "loopback 6", text: "daemon_addr: \"[::1]:5000\"\n", want: File{DaemonAddr: "[::1]:5000"}},
		{name: "relative path", text: "daemon_addr: ../run/x.sock\n", want: File{DaemonAddr: "../run/x.sock"}},
		{name: "byte order mark", text: "\ufeffdaemon_addr : /x.sock\n", want: File{DaemonAddr: "/x.sock"}},
		{name: "quoted field", text: "'daemon_addr': /x.sock\n", want: File{DaemonAddr: "/x.sock"}},
		{
			name: "indented address", text: "  daemon_addr: /x.sock\n",
			wrong: "pos.yaml:1: daemon_addr: it must stand at the beginning of a line",
		},
		{
			name: "address in braces", text: "{daemon_addr: /x.sock}\n",
			wrong: "pos.yaml:1: daemon_addr: it must stand at the beginning of a line",
		},
		{name: "unknown field", text: "job_name: a\n\njob_nmae: b\n", wrong: "pos.yaml:3: job_nmae: unknown field"},
		{
			name: "fields are named", text: "x: b\n",
			wrong: "(the fields are job_name, daemon_addr, log_path, checkpoint: {dir, every, keep, bandwidth, on, restore})",
		},
		{
			name: "interval", text: "job_name: a\ncheckpoint:\n  dir: c\n  every: soon\n",
			wrong: "pos.yaml:4: checkpoint.every: \"soon\" is no time span",
		},
		{
			name: "interval on one line", text: "job_name: a\ncheckpoint: {dir: c, every: 5ms}\n",
			wrong: "pos.yaml:2: checkpoint.every: it is below a second",
		},
		{name: "bandwidth", text: "checkpoint:\n  bandwidth: 10 furlongs\n", wrong: "pos.yaml:2: checkpoint.bandwidth: "},
		{name: "keep", text: "checkpoint:\n  keep: -1\n", wrong: "pos.yaml:2: checkpoint.keep: it must not be negative"},
		{name: "keep in words", text: "checkpoint:\n  keep: few\n", wrong: "pos.yaml:2: keep: it must be a whole number"},
		{
			name: "occasion", text: "checkpoint:\n  dir: c\n  on: [drain, never]\n",
			wrong: "pos.yaml:3: checkpoint.on: \"never\" is no occasion",
		},
		{
			name: "restore", text: "checkpoint:\n  dir: c\n  every: 1m\n  restore: always\n",
			wrong: "pos.yaml:4: checkpoint.restore: \"always\" is not known; say on-boot",
		},
		{
			name: "nothing to restore", text: "checkpoint:\n  restore: on-boot\n",
			wrong: "pos.yaml:1: checkpoint.dir: it is missing",
		},
		{name: "occasion alone", text: "checkpoint:\n  on: drain\n", wrong: "pos.yaml:2: on: it must be a list"},
		{
			name: "no directory", text: "job_name: a\ncheckpoint:\n  every: 10m\n",
			wrong: "pos.yaml:2: checkpoint.dir: it is missing",
		},
		{
			name: "directory alone", text: "checkpoint: {dir: c}\n",
			wrong: "pos.yaml:1: checkpoint.dir: every and on are missing, so no checkpoint would be taken",
		},
		{
			name: "fields are not named for a value", text: "checkpoint: {dir: c, every: 5ms}\n",
			wrong: "pos.yaml:1: checkpoint.every: it is below a second\n",
		},
		{
			name: "no directory for an occasion", text: "checkpoint: {on: [drain]}\n",
			wrong: "pos.yaml:1: checkpoint.dir: it is missing",
		},
		{
			name: "unknown field of a section", text: "checkpoint:\n  dir: c\n  evry: 5m\n",
			wrong: "pos.yaml:3: evry: unknown field",
		},
		{name: "section as text", text: "checkpoint: often\n", wrong: "pos.yaml:1: checkpoint: it must be a table"},
		{name: "hidden in name", text: "job_name: a\u202eb\n", wrong: "pos.yaml:1: job_name: it must be at most 128 printable bytes long"},
		{name: "list as name", text: "log_path: a\njob_name: [1, 2]\n", wrong: "pos.yaml:2: job_name: it must be text"},
		{name: "table as name", text: "job_name: {a: b}\n", wrong: "pos.yaml:1: job_name: it must be text"},
		{name: "syntax", text: "job_name: a\n  bad: [\n", wrong: "pos.yaml:"},
		{
			name: "other host", text: "job_name: a\ndaemon_addr: gpu7:5000\n",
			wrong: "pos.yaml:2: daemon_addr: \"gpu7:5000\" is another host",
		},
		{name: "control character", text: "job_name: \"a\\e[2J\"\n", wrong: "pos.yaml:1: job_name: "},
		{name: "scalar", text: "hello\n", wrong: "pos.yaml:1"},
		{name: "too large", text: strings.Repeat("#", MaxBytes+1), wrong: "larger than"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse(Name, []byte(test.text))
			if test.wrong == "" {
				if err != nil || got != test.want {
					t.Errorf("%+v, %v; want %+v", got, err, test.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error()+"\n", test.wrong) || !errors.Is(err, ErrInvalid) {
				t.Errorf("error %v, want an ErrInvalid with %q", err, test.wrong)
			}
		})
	}
}

// TestVariable: PHOS_JOB goes before pos.yaml, key by key.
func TestVariable(t *testing.T) {
	file, err := Parse(Name, []byte("job_name: a\nlog_path: phos.log\ncheckpoint: {dir: c, every: 10m}\n"))
	if err != nil {
		t.Fatal(err)
	}
	over, err := ParseVariable(`{"job_name": "b"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := file.With(over); got.JobName != "b" || got.LogPath != "phos.log" || got.Checkpoint.Dir != "c" {
		t.Errorf("got %+v, want the name of the variable and the rest of the file", got)
	}
	if over, err = ParseVariable("checkpoint: {dir: d, on: [drain]}"); err != nil ||
		file.With(over).Checkpoint.Dir != "d" {
		t.Errorf("got %+v, %v; want the variable's policy", file.With(over), err)
	}
	if over, err = ParseVariable(""); err != nil || file.With(over) != file {
		t.Errorf("empty variable: got %+v, %v; want the file", file.With(over), err)
	}
	for _, text := range []string{"daemon_addr: /x.sock\n", "job_nam: x\n"} {
		if over, err = ParseVariable(text); !errors.Is(err, ErrInvalid) ||
			!strings.HasPrefix(err.Error(), "PHOS_JOB:1: ") || over.DaemonAddr != "" {
			t.Errorf("%q: got %+v, %v; want an error at PHOS_JOB:1", text, over, err)
		}
	}
}

func TestCheckpoint(t *testing.T) {
	for _, test := range []struct {
		text string
		want config.Policy
	}{
		{
			"checkpoint: {dir: 'c/{rank}', every: 10m, keep: 5, bandwidth: 500MiB, on: [exit-signal, drain]}\n",
			config.Policy{
				Dir: "c/{rank}", Every: config.Interval(10 * time.Minute),
				Keep: 5, Bandwidth: 500 << 20, On: config.Occasions{"exit-signal", "drain"},
			},
		},
		{
			"checkpoint:\n  dir: /c\n  every: 1h30m\n",
			config.Policy{Dir: "/c", Every: config.Interval(90 * time.Minute), Keep: 3},
		},
		{"checkpoint: {keep: 0, bandwidth: 1000}\n", config.Policy{Bandwidth: 1000}},
		{"checkpoint: {}\n", config.Policy{Keep: 3}},
		{
			"checkpoint: {dir: /c, every: 1m, restore: on-boot}\n",
			config.Policy{Dir: "/c", Every: config.Interval(time.Minute), Keep: 3, OnBoot: true},
		},
	} {
		file, err := Parse(Name, []byte(test.text))
		if err != nil || file.Checkpoint == nil {
			t.Errorf("%s: %+v, %v", test.text, file, err)
			continue
		}
		if got, err := file.Checkpoint.Policy(); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v; want %+v", test.text, got, err, test.want)
		}
	}
}

// TestWrongOccasion: an occasion that does not exist is not shown as part of the policy.
func TestWrongOccasion(t *testing.T) {
	policy, err := Checkpoint{Dir: "c", On: []string{"exit", "drain"}}.Policy()
	if err == nil || !reflect.DeepEqual(policy.On, config.Occasions{"drain"}) {
		t.Errorf("got %v, %v; want drain and an error", policy.On, err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	if file, err := Load(path); err != nil || file != (File{}) {
		t.Errorf("no file: %+v, %v", file, err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, ErrInvalid) {
		t.Errorf("pipe: got %v, want ErrInvalid", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("job_name: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := Load(path); err != nil || file.JobName != "x" {
		t.Errorf("%+v, %v", file, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"job_name: a\n",
		"a: &a [*a]\n",
		"job_name: !!binary eA==\n",
		"? [\n",
		"checkpoint: {every: 10m, on: [drain]}\n",
		"---\n---\n",
		"job_name: |\n  x\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(Name, text)
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("error %v does not wrap ErrInvalid", err)
		}
		if strings.ContainsFunc(file.JobName, notPrintable) {
			t.Errorf("job name %q was accepted (%v)", file.JobName, err)
		}
	})
}
