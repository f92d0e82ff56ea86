package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// What --print-config shows must be a file that gives the same configuration again.
func TestTextIsAFile(t *testing.T) {
	want := Default()
	want.Sessions.ArenaSize = 3 << 20
	want.Gpus = GPUs{Offer: "soft:3", Driver: "/opt/libcuda.so.1", Exclusive: true}
	want.Checkpoint.On = Occasions{Drain, ExitSignal}
	want.Metrics.Listen = "unix:/run/phos/metrics.sock"
	got, err := Parse("test", []byte(want.Text()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("parsed %+v, want %+v", got, want)
	}
}

func TestWrongFilesNameTheirLine(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{
			"unknown key", "gpus = \"auto\"\ngpu = 1\n",
			"f.toml:2:1: unknown key gpu; the keys are gpus.offer, gpus.driver, gpus.exclusive, socket",
		},
		{"unknown nested key", "[sessions]\n\nper_group = 1\n", "f.toml:3:1: unknown key sessions.per_group"},
		{"wrong type", "socket = 7\n", "f.toml:1:10: socket: it is a whole number, and must be text"},
		{"neither name nor table", "gpus = 7\n", "f.toml:1:8: gpus: it is a whole number, and must be text or a table"},
		{"no GPUs", "gpus = \"\"\n", "f.toml:1:1: gpus.offer \"\": it is empty"},
		{"no GPUs in a table", "[gpus]\noffer = \"\"\n", "f.toml:2:1: gpus.offer \"\": it is empty"},
		{"name and table", "gpus = \"auto\"\n[gpus]\nexclusive = true\n", "f.toml: table gpus already exists"},
		{"list as text", "[log]\nlevel = [\"info\"]\n", "f.toml:2:1: log.level: it is a list, and must be text"},
		{"text as list", "[checkpoint]\non = \"drain\"\n", "f.toml:2:6: checkpoint.on: it is text, and must be a list"},
		{"number as table", "sessions = 3\n", "f.toml:1:12: sessions: it is a whole number, and must be a table"},
		{"twice", "gpus = \"auto\"\ncriu = \"\"\ngpus = \"soft:1\"\n", "f.toml:3:1: gpus: it is set a second time"},
		{"syntax", "gpus = auto\n", "f.toml:1:"},
		{"size", "[sessions]\narena_size = \"many\"\n", "f.toml:2:14: sessions.arena_size: \"many\" is no size"},
		{
			"relative driver", "[gpus]\ndriver = \"libcuda.so.1\"\n",
			"f.toml:2:1: gpus.driver \"libcuda.so.1\": it must be an absolute path",
		},
		{"relative socket", "socket = \"phosd.sock\"\n", "f.toml:1:1: socket \"phosd.sock\": it must be an absolute path"},
		{"level", "[log]\nlevel = \"loud\"\n", "f.toml:2:1: log.level \"loud\": it must be"},
		{"level in a line", "gpus = \"auto\"\nlog = {level = \"loud\"}\n", "f.toml:2:1: log.level \"loud\": it must be"},
		{
			"public metrics", "[metrics]\nlisten = \"0.0.0.0:9000\"\n",
			"f.toml:2:1: metrics.listen \"0.0.0.0:9000\": 0.0.0.0 is not a loopback address",
		},
		{
			"occasion", "[checkpoint]\ndir = \"/c\"\non = [\"drain\", \"never\"]\n",
			"f.toml:3:1: checkpoint.on \"drain,never\": \"never\" is no occasion",
		},
		{
			"negative quota",
			"[sessions]\nprograms_per_user = -1\n",
			"f.toml:2:1: sessions.programs_per_user \"-1\": it must be at least 1",
		},
		{
			"more sessions than slots", "[sessions]\ntotal = 1025\n",
			"f.toml:2:1: sessions.total \"1025\": it must be 1 to 1024",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.toml", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q in it", err, test.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v is no ErrInvalid", err)
			}
		})
	}
}

func TestFlagsWinOverTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "phosd.toml")
	if err := os.WriteFile(path, []byte("gpus = \"soft:2\"\n[log]\nformat = \"json\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var flags Flags
	set := flag.NewFlagSet("phosd", flag.ContinueOnError)
	flags.Register(set)
	if err := set.Parse([]string{"--gpus", "soft:4", "--sessions-arena-size", "64MiB", "--config", path}); err != nil {
		t.Fatal(err)
	}
	got, err := flags.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if got.Gpus.Offer != "soft:4" || got.Log.Format != "json" || got.Sessions.ArenaSize != 64<<20 {
		t.Errorf("resolved %+v", got)
	}
	if err := set.Parse([]string{"--set", "sessions.programs_per_user=3"}); err != nil {
		t.Fatal(err)
	}
	if got, err = flags.Resolve(); err != nil || got.Sessions.ProgramsPerUser != 3 {
		t.Errorf("--set gave %+v, %v", got, err)
	}
	if err := set.Parse([]string{"--set", "checkpoint.every=10m"}); err != nil {
		t.Fatal(err)
	}
	if _, err := flags.Resolve(); err == nil || !strings.Contains(err.Error(), "checkpoint.dir") {
		t.Errorf("checkpoints that go nowhere: %v, want a word on checkpoint.dir", err)
	}
	if err := set.Parse([]string{"--checkpoint-dir=/c"}); err != nil {
		t.Fatal(err)
	}
	if _, err := flags.Resolve(); err != nil {
		t.Error(err)
	}
	if config, err := flags.Resolve(); err != nil || config.Checkpoint.Policy().OnBoot ||
		config.Checkpoint.KeepEnded != Interval(7*24*time.Hour) {
		t.Errorf("got %+v, %v, want images of a week and no restore", config.Checkpoint, err)
	}
	if err := set.Parse([]string{"--checkpoint-restore=on-boot"}); err != nil {
		t.Fatal(err)
	}
	if config, err := flags.Resolve(); err != nil || !config.Checkpoint.Policy().OnBoot {
		t.Errorf("got %+v, %v, want a restore", config.Checkpoint, err)
	}
	if err := set.Parse([]string{"--set", "checkpoint.every=0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := flags.Resolve(); err == nil || !strings.Contains(err.Error(), "checkpoint.restore") {
		t.Errorf("a restore without checkpoints: got %v, want checkpoint.restore in it", err)
	}
	if err := set.Parse([]string{"--set", "checkpoint.every=10m"}); err != nil {
		t.Fatal(err)
	}
	if err := set.Parse([]string{"--set", "sessions.each=3"}); err == nil ||
		!strings.Contains(err.Error(), "unknown key sessions.each; the keys are gpus") {
		t.Errorf("--set of an unknown key: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.toml")); err == nil {
		t.Error("a file that was asked for and is missing gave no error")
	}
}

// TestOldKeys checks that the old names of keys work in files and as flags, wherever TOML allows a
// key.
func TestOldKeys(t *testing.T) {
	for _, text := range []string{
		"[workers]\nwarm = 2\n[checkpoint]\nwarm_seconds = 7\n[sessions]\nper_user = 5\n",
		"sessions = {per_user = 5}\nworkers.warm = 2\ncheckpoint = {deadline_seconds = 30, warm_seconds = 7}\n",
		"[workers]\n\"warm\" = 2 # idle\n[checkpoint]\nprepared_seconds = 7\n[sessions]\nper_user = 5\n",
		"[workers]\nstandby = 2\n[checkpoint]\nprepared_seconds = 7\n[sessions]\nprograms_per_user = 5\n",
	} {
		got, err := Parse("f.toml", []byte(text))
		if err != nil || got.Workers.Standby != 2 || got.Checkpoint.PreparedSeconds != 7 || got.Sessions.ProgramsPerUser != 5 {
			t.Errorf("%q: got %+v, %+v and %+v, %v", text, got.Workers, got.Checkpoint, got.Sessions, err)
		}
	}
	for text, want := range map[string]string{
		"[workers]\nstandby = 1\nwarm = 2\n": "f.toml:3:1: workers.warm: it is the old name of workers.standby, " +
			"which is set too",
		"[workers]\nwarm = 65\n":                    "f.toml:2:1: workers.standby \"65\": it must be 0 to 64",
		"[workers]\nwarm = 1\nwarm = 2\n":           "f.toml:3:1: workers.standby: it is set a second time",
		"[workers]\nwarm = 1\nmemmory = \"1MiB\"\n": "f.toml:3:1: unknown key workers.memmory",
	} {
		if _, err := Parse("f.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q in it", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "phosd.toml")
	if err := os.WriteFile(path, []byte("[workers]\nwarm = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--workers-warm", "3", "--checkpoint-warm-seconds=9", "--sessions-per-user=5"},
		{"--workers-standby=3", "--set", "checkpoint.warm_seconds=9", "--set", "sessions.per_user=5"},
	} {
		flags := Flags{File: path}
		set := flag.NewFlagSet("phosd", flag.ContinueOnError)
		flags.Register(set)
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		got, err := flags.Resolve()
		if err != nil || got.Workers.Standby != 3 || got.Checkpoint.PreparedSeconds != 9 || got.Sessions.ProgramsPerUser != 5 {
			t.Errorf("%q: got %+v, %+v and %+v, %v", args, got.Workers, got.Checkpoint, got.Sessions, err)
		}
	}
	for old := range renamed {
		if slices.Contains(Keys(), old) {
			t.Errorf("%s is an old name, and a key", old)
		}
	}
}

// GPUs are a name, or a table that says more; a flag for the name leaves the rest of the table
// alone.
func TestGPUs(t *testing.T) {
	for text, want := range map[string]GPUs{
		"":                           {Offer: "auto"},
		"gpus = \"soft:2\"\n":        {Offer: "soft:2"},
		"[gpus]\nexclusive = true\n": {Offer: "auto", Exclusive: true},
		"gpus = {offer = \"x\", exclusive = true}": {Offer: "x", Exclusive: true},
	} {
		got, err := Parse("f.toml", []byte(text))
		if err != nil || got.Gpus != want {
			t.Errorf("%q is %+v (%v), want %+v", text, got.Gpus, err, want)
		}
		if err := got.Set("gpus", "soft:9"); err != nil || got.Gpus.Offer != "soft:9" ||
			got.Gpus.Exclusive != want.Exclusive {
			t.Errorf("%q with another name is %+v, %v", text, got.Gpus, err)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "17": 17, "8GiB": 8 << 30, "8 G": 8 << 30, "1TiB": 1 << 40,
		"3K": 3 << 10,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "8GB!", "GiB", "99999999999TiB"} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %d", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(Default().Text()))
	f.Add([]byte("[sessions]\nprograms_per_user = 3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := Parse("fuzz", text)
		if err != nil {
			return
		}
		if again, err := Parse("again", []byte(config.Text())); err != nil || !reflect.DeepEqual(again, config) {
			t.Errorf("%+v became %+v: %v", config, again, err)
		}
	})
}

// TestFlagUsages checks that each flag says what --print-config says of its key.
func TestFlagUsages(t *testing.T) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	(&Flags{}).Register(flags)
	for _, key := range Keys() {
		form, usage := flag.UnquoteUsage(flags.Lookup(flagName(key)))
		comment := strings.TrimPrefix(usage, form+": ")
		if form == "" || comment == "" || !strings.Contains(Default().Text(), "# "+comment+"\n") {
			t.Errorf("%s: usage %q is not a comment of the configuration", key, usage)
		}
	}
}
