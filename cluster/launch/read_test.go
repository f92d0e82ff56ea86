package launch

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// complete is a launch file that uses every field.
const complete = `
name = "digits"
description = "a classifier"
priority = 5
time_limit = "12h"
queue = "refuse"
after = ["l-1", "l-2"]
restartable = true
network = "own"
[place]
cluster = "main"
shard = "a"
hostnames = ["node-1", "Node-2.example.com"]
whole_nodes = true
[source]
git = "git@example.com:team/repo.git"
branch = "main"
commit = "0123456789abcdef0123456789abcdef01234567"
[env]
A = "1"
[checkpoint]
every = "10m"
on = ["preempt", "drain"]
keep = 3
dir = "/shared/images"
[array]
LR = [0.1, "0.01"]
[[jobs]]
name = "train"
replicas = "4..8"
on_replica_failure = "continue"
retries = 3
retry_on = [1, 75]
env = { B = "2" }
[[jobs.processes]]
command = ["python3", "train.py", "--lr", "{LR}"]
dir = "src"
env = { C = "3" }
ports = ["http"]
resources = { cpus = 1.5, memory = "8GiB", gpus = 2, gpu_models = ["h100", "a100-80gb"], gpu_memory = "40GiB" }
`

// TestComplete checks that every field of a launch file arrives, and that JSON keeps it.
func TestComplete(t *testing.T) {
	want := Spec{
		Name: "digits", Description: "a classifier", Priority: 5, TimeLimit: Duration(12 * time.Hour), Queue: Refuse,
		After: []string{"l-1", "l-2"}, Restartable: true, Network: OwnNetwork,
		Place: Place{
			Cluster: "main", Shard: "a", Hostnames: []string{"node-1", "Node-2.example.com"}, WholeNodes: true,
		},
		Source: Source{
			Git: "git@example.com:team/repo.git", Branch: "main", Commit: "0123456789abcdef0123456789abcdef01234567",
		},
		Variables: map[string]string{"A": "1"},
		Checkpoint: Checkpoint{
			Every: Duration(10 * time.Minute), On: []string{"preempt", "drain"}, Keep: 3, Directory: "/shared/images",
		},
		Array: map[string][]Value{"LR": {"0.1", "0.01"}},
		Jobs: []Job{{
			Name: "train", Replicas: Replicas{4, 8}, OnReplicaFailure: KeepOthers, Retries: 3, RetryOn: []int{1, 75},
			Variables: map[string]string{"B": "2"},
			Processes: []Process{{
				Command: []string{"python3", "train.py", "--lr", "{LR}"}, Directory: "src",
				Variables: map[string]string{"C": "3"}, Ports: []string{"http"},
				Resources: Resources{
					CPUs: 1500, Memory: 8 << 30, GPUs: 2, GPUModels: []string{"h100", "a100-80gb"}, GPUMemory: 40 << 30,
				},
			}},
		}},
	}
	unset := unsetFields(reflect.ValueOf(want), "Spec")
	if !slices.Equal(unset, []string{"Spec.Source.Directory"}) { // beside Git it is refused
		t.Errorf("this test sets no %q", unset)
	}
	got, err := ReadTOML([]byte(complete))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	checked, err := got.Check()
	if err != nil || !reflect.DeepEqual(checked, want) {
		t.Errorf("Check: got %+v, %v, want no change", checked, err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = ReadJSON(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("from JSON: got %+v, %v", got, err)
	}
}

// TestDefaults checks what is filled in.
func TestDefaults(t *testing.T) {
	spec, err := ReadTOML([]byte("[[jobs]]\nname = 'a'\nreplicas = 2\n[[jobs.processes]]\ncommand = ['x']\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := spec.Check()
	if err != nil {
		t.Fatal(err)
	}
	job := got.Jobs[0]
	if got.Queue != Wait || job.OnReplicaFailure != StopOthers || job.Replicas != (Replicas{2, 2}) {
		t.Errorf("got %+v", got)
	}
	if spec.Jobs[0].OnReplicaFailure != "" {
		t.Error("Check changed its argument")
	}
}

// process returns a launch file with one process, and lines before it.
func process(lines string) string {
	return "[[jobs]]\nname = 'a'\n" + lines + "\n[[jobs.processes]]\ncommand = ['x']\n"
}

// TestRefused checks that each error names the field, the value and what would be right.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no jobs":      {"name = 'x'", "jobs: missing: a launch needs at least one job"},
		"syntax":       {"name = ", "line 1, column 8"},
		"near field":   {"nmae = 'x'", "nmae: unknown field; did you mean name?"},
		"far field":    {"colour = 'x'", "colour: unknown field; known are name, description, jobs"},
		"inner field":  {process("replica = 2"), "jobs[0].replica: unknown field; did you mean replicas?"},
		"type":         {"priority = 'high'", `priority: "high": want a whole number`},
		"bool":         {"restartable = 'no'", `restartable: "no": want true or false`},
		"table":        {"place = 'here'", `place: "here": want a table of cluster, shard, hostnames, whole_nodes`},
		"shell":        {"[[jobs]]\nname='a'\n[[jobs.processes]]\ncommand = 'python3 x.py'", `jobs[0].processes[0].command: "python3 x.py": want a list, as ["a", "b"]`},
		"no command":   {"[[jobs]]\nname='a'\n[[jobs.processes]]\n", "jobs[0].processes[0].command: missing"},
		"no process":   {"[[jobs]]\nname='a'\n", "jobs[0].processes: missing"},
		"no name":      {"[[jobs]]\n[[jobs.processes]]\ncommand=['x']", "jobs[0].name: missing"},
		"NUL":          {"[[jobs]]\nname='a'\n[[jobs.processes]]\ncommand=[\"a\\u0000b\"]", `jobs[0].processes[0].command[0]: "a\x00b": want UTF-8 without NUL bytes`},
		"name is path": {"[[jobs]]\nname = '../a'\n[[jobs.processes]]\ncommand = ['x']", `jobs[0].name: "../a": want at most 63 small letters`},
		"hidden name":  {"name = \"a\\u202eb\"\n" + process(""), `name: "a\u202eb": want text without control characters and invisible ones`},
		"empty look":   {"description = \"\\u200b\"\n" + process(""), `description: "\u200b": want text without control characters and invisible ones`},
		"same name":    {process("") + process(""), `jobs[1].name: "a": jobs[0] has the same name`},
		"replicas 0":   {process("replicas = 0"), "jobs[0].replicas: 0: want a number from 1, or a range as 4..8"},
		"range":        {process("replicas = '8..4'"), `jobs[0].replicas: "8..4": want a number from 1`},
		"many":         {process("replicas = 5000"), "jobs: more than 4096 replicas in all"},
		"retry_on":     {process("retry_on = [1]"), "jobs[0].retry_on: has no effect without retries"},
		"exit code":    {process("retries = 1\nretry_on = [256]"), "jobs[0].retry_on[0]: 256: want a number from 1 to 255"},
		"queue":        {"queue = 'later'\n" + process(""), `queue: "later": want "wait" or "refuse"`},
		"time":         {"time_limit = '12'", `time_limit: "12": want a time above 0, as 90s, 12h or 7d`},
		"hostname":     {"place = { hostnames = ['a b'] }\n" + process(""), `place.hostnames[0]: "a b": want the name of a host`},
		"twice":        {"place = { hostnames = ['a', 'a'] }\n" + process(""), `place.hostnames[1]: "a": it is named twice`},
		"git option":   {"source = { git = '--upload-pack=x' }\n" + process(""), "want a name without spaces that does not begin with -"},
		"branch":       {"source = { branch = 'main' }\n" + process(""), "source.git: missing"},
		"two sources":  {"source = { git = 'a', dir = '.' }\n" + process(""), "source: has a dir and a git repository"},
		"variable":     {"env = { 'A=B' = 'x' }\n" + process(""), `env: "A=B": want names of letters`},
		"reserved":     {"env = { PHOS_JOB_NAME = 'x' }\n" + process(""), "env.PHOS_JOB_NAME: names that begin with PHOS_ are set by phos"},
		"outside":      {process("") + "dir = 'a/../../b'", "jobs[0].processes[0].dir: \"a/../../b\": want a path inside"},
		"no GPUs":      {process("") + "resources = { gpu_models = ['h100'] }", "resources.gpus: missing: gpu_models and gpu_memory say which, not how many"},
		"memory":       {process("") + "resources = { memory = '8 potatoes' }", `resources.memory: "8 potatoes": want a size as 512MiB or 80GiB`},
		"occasion":     {"checkpoint = { on = ['xid'] }\n" + process(""), `checkpoint.on[0]: "xid": want "preempt"`},
		"relative dir": {"checkpoint = { dir = 'x' }\n" + process(""), `checkpoint.dir: "x": want an absolute path`},
		"array":        {"array = { LR = [] }\n" + process(""), "array.LR: has no values"},
		"array in env": {"array = { A = [1] }\nenv = { A = 'x' }\n" + process(""), "array.A: env has a variable of the same name"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, err := ReadTOML([]byte(test.text))
			if err == nil {
				_, err = spec.Check()
			}
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestLongValues checks that no error repeats much of what it refuses.
func TestLongValues(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, text := range []string{
		"name = '" + long + "'", long + " = 1", "queue = '" + long + "'", "env = { '" + long + "=' = 'x' }",
		"priority = '" + long + "'", "place = '" + long + "'", "time_limit = '" + long + "'",
		"after = ['" + long + "']", "source = { git = '" + long + "' }", "[[jobs]]\nname = '" + long + "'",
		"[[jobs]]\nname = 'a'\n[[jobs.processes]]\ncommand = ['" + long + "']",
	} {
		spec, err := ReadTOML([]byte(text))
		if err == nil {
			_, err = spec.Check()
		}
		var all Errors
		if !errors.As(err, &all) {
			t.Errorf("%.20s: got %v, want Errors", text, err)
		}
		for _, each := range all {
			if len(each.Error()) > 300 {
				t.Errorf("an error of %d bytes: %.100s", len(each.Error()), each.Error())
			}
		}
	}
}

// FuzzSpec reads any text as both forms. What is accepted must survive its own JSON form.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(complete))
	f.Add([]byte(process("replicas = '1..3'")))
	f.Add([]byte(`{"jobs":[{"name":"a","processes":[{"command":["x"]}],"replicas":null}]}`))
	f.Add([]byte(`{"jobs":[{"name":"a","replicas":1e300}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, read := range []func([]byte) (Spec, error){ReadTOML, ReadJSON} {
			spec, err := read(text)
			if err == nil {
				spec, err = spec.Check()
			}
			if err != nil {
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("got %v, want ErrInvalid", err)
				}
				continue
			}
			again, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			same, err := ReadJSON(again)
			if err != nil {
				t.Fatalf("%s: %v", again, err)
			}
			if twice, _ := json.Marshal(same); string(twice) != string(again) {
				t.Errorf("got %s, want %s", twice, again)
			}
		}
	})
}

// unsetFields returns the paths of all fields that are zero.
func unsetFields(v reflect.Value, path string) (unset []string) {
	switch {
	case v.IsZero():
		return []string{path}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		return unsetFields(v.Index(0), path)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			unset = append(unset, unsetFields(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
	}
	return unset
}
