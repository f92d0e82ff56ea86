package sim

import (
	"context"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/phos-gpu/phos/cli/humanize"
)

// maxError is the most characters of an error as pos_cli prints it.
const maxError = 200

// large are values of up to 300 kB.
var large = []string{
	strings.Repeat("x", 300_000), strings.Repeat("7", 100_000), strings.Repeat("a b ", 20_000), strings.Repeat(`"`, 70_001),
	strings.Repeat("é:1,", 10_000),
}

// checkShort fails if an error is too long, or does not name where it found the value.
func checkShort(t *testing.T, err error, what, place string) {
	t.Helper()
	if err == nil {
		return
	}
	text := humanize.Error(err)
	if n := utf8.RuneCountInString(text); n > maxError || !strings.Contains(text, place) {
		t.Errorf("%s: %d characters, want %s in: %.400s", what, n, place, text)
	}
}

// TestErrorsOfFlags gives each flag of each verb large values.
func TestErrorsOfFlags(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	jobs := file(t, dir, "jobs.csv", header+"0,0,10,2\n")
	base := map[string]string{
		"run": "--nodes 1 --gpus-per-node 2 --no-pictures --jobs " + jobs, "generate": "--jobs-per-hour 5 --count 1", "check": "",
		"compare": "--nodes 1 --gpus-per-node 2 --no-pictures --jobs " + jobs,
	}
	for _, v := range Verbs() {
		_, name, _ := strings.Cut(v.Name, " ")
		args, ok := base[name]
		if !ok {
			continue
		}
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		v.Setup(flags)
		flags.VisitAll(func(f *flag.Flag) {
			for _, value := range large[:4] {
				line := append(append([]string{name}, strings.Fields(args)...), "--"+f.Name+"="+value)
				_, err := say(context.Background(), line...)
				checkShort(t, err, name+" --"+f.Name, "")
			}
		})
	}
}

// TestErrorsOfFiles puts large values into each place of files of each kind.
func TestErrorsOfFiles(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", "job_id,submit_s,duration_s,num_gpus,user\n0,0,10,2,a\n")
	run := "run --no-pictures --nodes 1 --gpus-per-node 2 "
	for _, each := range []struct{ name, text, flags string }{
		{"trace.csv", "job_id,submit_s,duration_s,num_gpus,user,gpu_type\n0,0,10,2,a,\n", run + "--jobs "},
		{"trace.swf", "; x\n1 0 5 10 2 -1 -1 2 10 -1 1 1 1 1 1 1 -1 -1\n", run + "--jobs "},
		{"nodes.csv", "gpus,name,count\n2,x,3\n", "run --no-pictures --jobs " + jobs + " --nodes-file "},
		{"events.csv", "time_s,node,event\n5,0,down\n", run + "--jobs " + jobs + " --node-events "},
		{"costs.csv", "save_s,load_s,model\n5,1,m\n", run + "--order srtf --jobs " + jobs + " --cost "},
		{"models.csv", "model,gpus,speed\nm,1,2\n", run + "--order optimus --jobs " + jobs + " --models "},
		{
			"log.jsonl",
			`{"format":"phos-scheduler-events","version":"1.0","source":"x","nodes":[]}` + "\n" + `{"time_s":1,"event":"admit","job":2}` + "\n",
			"check --events ",
		},
	} {
		ends := strings.FieldsFunc(each.text, func(r rune) bool { return strings.ContainsRune(",\n :{}[]\t", r) })
		for _, word := range ends {
			for _, value := range large {
				path := file(t, dir, each.name, strings.Replace(each.text, word, value, 1))
				_, err := say(context.Background(), append(strings.Fields(each.flags), path)...)
				checkShort(t, err, each.name+" "+word, filepath.Base(path))
			}
		}
	}
}
