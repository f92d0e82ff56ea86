package sim

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// play simulates the jobs of a file as sim run does.
func play(t *testing.T, line string) (*sim.Result, input) {
	t.Helper()
	s := &settings{}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	s.runFlags(flags)
	if err := flags.Parse(strings.Fields(line)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	in, err := s.load()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	r, err := s.simulate(t.Context(), in, func(int, int, time.Duration) {})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r, in
}

// forOrder returns the flags that select an order.
func forOrder(order string) string {
	if order == "quota" {
		return " --order quota --quotas a=4,b=2"
	}
	return " --order " + order
}

// TestLoneJob: a job alone takes its length under every order, whatever it asks for and whenever it
// arrives. On another type of GPU it takes as much longer under every order.
func TestLoneJob(t *testing.T) {
	dir := t.TempDir()
	top := "job_id,submit_s,duration_s,num_gpus,min_gpus,max_gpus,model,user\n"
	for at, test := range []struct {
		job, flags string
		want       time.Duration
	}{
		{"0,0,1000,1,,,,a", "--nodes 4 --gpus-per-node 4", 1000 * time.Second},
		{"0,41.5,1000,8,,,bert,a", "--nodes 4 --gpus-per-node 4", 1000 * time.Second},
		{"0,59.9,1000,3,,,vgg16,", "--nodes 1 --gpus-per-node 4 --restart-cost 30", 1000 * time.Second},
		{"0,7,1000,6,,,resnet50,a", "--gpu-types A100:4x4", 1000 * time.Second},
		{"0,7,1000,6,,,resnet50,a", "--gpu-types A100:4x4 --reference V100", 500 * time.Second},
		{"0,7,1000,2,,,what,a", "--gpu-types X:2x4 --type-speeds X=0.5", 2000 * time.Second},
		{"0,33,1000,4,4,8,resnet50,a", "--nodes 2 --gpus-per-node 4 --no-grow", 1000 * time.Second},
		{"0,33,1000,4,,,resnet50,a", "--nodes 2 --gpus-per-node 4 --model linear", 1000 * time.Second},
		{"0,33,1000,4,,,resnet50,a", "--nodes 2 --gpus-per-node 4 --model placed", 1000 * time.Second},
	} {
		jobs := file(t, dir, fmt.Sprintf("%d.csv", at), top+test.job+"\n")
		for _, order := range orders() {
			r, _ := play(t, "--jobs "+jobs+" "+test.flags+forOrder(order))
			if got := jct(r, 0); got != test.want {
				t.Errorf("%s: %s, %s: the job takes %v, want %v", order, test.job, test.flags, got, test.want)
			}
		}
	}
}

// TestElasticJobAlone: a job that gets more GPUs than it asks for ends sooner by the model's curve:
// at once under optimus, and under pollux, which explores, after some rounds.
func TestElasticJobAlone(t *testing.T) {
	jobs := file(t, t.TempDir(), "jobs.csv",
		"job_id,submit_s,duration_s,num_gpus,min_gpus,max_gpus,model\n0,41.5,1000,4,4,8,resnet50\n")
	var b books
	want := float64(1000*time.Second) * b.rate("resnet50", 4) / b.rate("resnet50", 8)
	for order, most := range map[string]float64{"optimus": want + 2, "pollux": want + float64(4*time.Minute)} {
		r, _ := play(t, "--jobs "+jobs+" --nodes 2 --gpus-per-node 8"+forOrder(order))
		if got := float64(jct(r, 0)); got < want-2 || got > most {
			t.Errorf("%s: the job takes %v, want %v", order, jct(r, 0), time.Duration(want))
		}
	}
}

// TestWithoutContention: jobs for which there are always enough GPUs end at the same times under
// every order, though they arrive between rounds.
func TestWithoutContention(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := "job_id,submit_s,duration_s,num_gpus,model,user\n"
	for i := range 30 {
		text += fmt.Sprintf("%d,%.3f,%d,%d,%s,%c\n", i, 900*random.Float64(), 100+random.IntN(2000), 1+random.IntN(4),
			[]string{"resnet50", "bert", ""}[random.IntN(3)], 'a'+random.IntN(3))
	}
	jobs := file(t, t.TempDir(), "jobs.csv", text)
	for _, order := range orders() {
		line := "--jobs " + jobs + " --nodes 40 --gpus-per-node 4" + forOrder(order)
		if order == "quota" {
			line = strings.ReplaceAll(line, "a=4,b=2", "a=60,b=60,c=40")
		}
		r, in := play(t, line)
		lengths := map[cluster.JobID]time.Duration{}
		for _, j := range in.jobs.All() {
			lengths[j.ID] = j.Length
		}
		for _, j := range r.Jobs.All() {
			if got, want := j.JCT(), lengths[j.ID]; got != want {
				t.Errorf("%s: job %d takes %v, want %v", order, j.ID, got, want)
			}
		}
	}
}

// mixedJobs returns jobs of all kinds: elastic ones, shares of GPUs, and with types some that need
// one.
func mixedJobs(seed uint64, n int, types []string) string {
	random := rand.New(rand.NewPCG(seed, 1))
	text := "job_id,submit_s,duration_s,estimate_s,num_gpus,share,min_gpus,max_gpus,model,user,gpu_type\n"
	for i := range n {
		gpus, length := 1+random.IntN(4), 50+random.IntN(3000)
		share, bounds, gpuType := "1", ",", ""
		switch random.IntN(4) {
		case 0:
			bounds = fmt.Sprintf("%d,%d", 1+random.IntN(gpus), gpus+random.IntN(4))
		case 1:
			gpus, share = 1, []string{"0.25", "0.5", "1"}[random.IntN(3)]
		}
		if types != nil && random.IntN(3) == 0 {
			gpuType, gpus, bounds = types[random.IntN(len(types))], 1+random.IntN(2), ","
			share = "1"
		}
		text += fmt.Sprintf("%d,%.2f,%d,%d,%d,%s,%s,%s,%s,%s\n", i, 3000*random.Float64(), length,
			max(1, int(float64(length)*(0.5+random.Float64()))), gpus, share, bounds,
			[]string{"resnet50", "bert", "vgg16", "own"}[random.IntN(4)], []string{"a", "b", "c/d"}[random.IntN(3)], gpuType)
	}
	return text
}

// TestEveryJobGetsItsWork audits runs of all orders on contended clusters: by the record of its
// runs, each job has worked for exactly its length under the common model, stops and failures
// included.
func TestEveryJobGetsItsWork(t *testing.T) {
	dir := t.TempDir()
	cost := file(t, dir, "cost.csv", "save_s,load_s\n7,11\n")
	mixed := map[string]float64{"A": 1, "B": 0.5, "C": 3}
	for at, test := range []struct {
		flags      string
		types      map[string]float64
		save, load time.Duration
	}{
		{"--nodes 2 --gpus-per-node 4", nil, 0, 0},
		{"--nodes 2 --gpus-per-node 4 --cost " + cost, nil, 7 * time.Second, 11 * time.Second},
		{"--gpu-types A:1x4,B:2x3,C:1x4 --type-speeds A=1,B=0.5,C=3 --restart-cost 20", mixed, 0, 20 * time.Second},
		{"--nodes 3 --gpus-per-node 4 --job-mtbf 3000 --node-mtbf 9000 --node-repair 200", nil, 0, 0},
		{"--nodes 2 --gpus-per-node 4 --caps a=5,c=4 --round 30 --placement best-fit", nil, 0, 0},
		{
			"--nodes 2 --gpus-per-node 4 --backfill conservative --placement fgd --victims cheapest --cost-share 0.1" +
				" --cost " + cost, nil, 7 * time.Second, 11 * time.Second,
		},
		{"--nodes 3 --gpus-per-node 3 --backfill easy --placement skew --walk strict --no-grow --quantum 5", nil, 0, 0},
	} {
		types := []string{"A", "C"}
		if test.types == nil {
			types = nil
		}
		jobs := file(t, dir, fmt.Sprintf("%d.csv", at), mixedJobs(uint64(at), 25, types))
		for _, order := range orders() {
			flags := test.flags
			if stops := (&settings{}).stopsJobs(order) || isElastic(order); !stops {
				flags, _, _ = strings.Cut(flags, " --restart-cost")
				flags, _, _ = strings.Cut(flags, " --cost")
			}
			r, in := play(t, "--jobs "+jobs+" "+flags+forOrder(order))
			b := &books{
				t: t, jobs: map[cluster.JobID]cluster.Job{}, nodes: in.nodes, types: test.types,
				save: test.save, load: test.load,
			}
			for _, j := range in.jobs.All() {
				b.jobs[j.ID] = j
			}
			if wrong := b.audit(r); wrong != nil {
				id := wrong[0]
				t.Errorf("%s: %s: jobs %v got other work than their length: job %d %v, want %v", order, flags, wrong,
					id, time.Duration(b.worked[id]), b.jobs[id].Length)
			}
		}
	}
}

// TestAuditSeesOtherModels: the audit finds what a policy's own model does to jobs.
func TestAuditSeesOtherModels(t *testing.T) {
	jobs := file(t, t.TempDir(), "jobs.csv", mixedJobs(1, 25, nil))
	r, in := play(t, "--nodes 2 --gpus-per-node 4 --order pollux --model own --jobs "+jobs)
	b := &books{t: t, jobs: map[cluster.JobID]cluster.Job{}, nodes: in.nodes}
	for _, j := range in.jobs.All() {
		b.jobs[j.ID] = j
	}
	if wrong := b.audit(r); len(wrong) == 0 {
		t.Error("the audit finds nothing wrong with jobs that adapt their batches")
	}
}

// TestModelIsSaid: the model is in the printed table, in compare.json, in each summary and on the
// page.
func TestModelIsSaid(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", header+"0,0,10,2\n1,2,9,1\n")
	for model, want := range map[string]string{
		"common": "the same for all orders; a job takes its duration on the GPUs that it asks for",
		"linear": "speed is proportional to the number of GPUs",
		"own":    "each order has its own",
	} {
		out := filepath.Join(dir, model)
		line := "compare --nodes 1 --gpus-per-node 2 --order fifo,gavel --out " + out + " --jobs " + jobs
		if model != commonModel {
			line += " --model " + model
		}
		text, err := say(context.Background(), strings.Fields(line)...)
		if err != nil || !strings.Contains(text, "\nmodel: "+model+": ") || !strings.Contains(text, want) {
			t.Errorf("%s: %v, %s", model, err, text)
		}
		for name, part := range map[string]string{
			"compare.json": `"name": "` + model + `"`, "index.html": "Model " + model + ": ",
			"fifo.summary.json": `"model": "` + model + `"`,
		} {
			content, err := os.ReadFile(filepath.Join(out, name))
			if err != nil || !strings.Contains(string(content), part) {
				t.Errorf("%s: %s lacks %s (%v)", model, name, part, err)
			}
		}
		var view struct{ Model *modelView }
		content, _ := os.ReadFile(filepath.Join(out, "compare.json"))
		if err := json.Unmarshal(content, &view); err != nil || view.Model == nil || view.Model.Same != (model != ownModel) ||
			!strings.Contains(view.Model.Text, want) {
			t.Errorf("%s: %s, %v", model, content, err)
		}
	}
}

// TestRefusedModels: what an order cannot do under a model is an error that names the order, the
// reason and a remedy, and the remedy works.
func TestRefusedModels(t *testing.T) {
	dir := t.TempDir()
	models := file(t, dir, "models.csv", "model,gpus,rate\nbert,1,10\nbert,4,30\n")
	plain := file(t, dir, "plain.csv", header+"7,0,10,2\n")
	rigid := file(t, dir, "rigid.csv", "job_id,submit_s,duration_s,num_gpus,model\n7,0,10,2,mine\n")
	elastic := file(t, dir, "elastic.csv",
		"job_id,submit_s,duration_s,num_gpus,min_gpus,max_gpus,model\n7,0,10,2,1,4,mine\n")
	nodes := file(t, dir, "nodes.csv", "gpus,gpu_type\n4,V100\n4,\n")
	for _, test := range []struct {
		line, remedy string
		want         []string
	}{
		{
			"--gpu-types X:1x4,Y:1x4 --order las --jobs " + plain, "--type-speeds X=1,Y=2",
			[]string{"order las", "--model common", "job 7", "type X", "--type-speeds X=1,Y=2", "--model linear"},
		},
		{
			"--gpu-types X:1x4,V100:1x4 --order gavel --jobs " + plain, "--model linear",
			[]string{"order gavel", "type X", "--model linear"},
		},
		{
			"--nodes-file " + nodes + " --order fifo --jobs " + plain, "--model linear",
			[]string{"order fifo", "gpu_type", "--nodes-file"},
		},
		{
			"--gpu-types V100:1x4 --reference Q --order fifo --jobs " + plain, "--reference A100",
			[]string{"--reference Q"},
		},
		{
			"--nodes 1 --gpus-per-node 4 --order optimus --model measured --models " + models + " --jobs " + elastic,
			"--model common",
			[]string{"order optimus", "--model measured", "job 7", "1 to 4 GPUs", `"mine"`, "--model common"},
		},
		{
			"--nodes 1 --gpus-per-node 4 --order pollux --model measured --jobs " + rigid, "--models " + models,
			[]string{"--models"},
		},
	} {
		for _, verbOf := range []string{"run ", "compare "} {
			_, err := say(context.Background(), strings.Fields(verbOf+test.line)...)
			if !errors.Is(err, verb.ErrUsage) {
				t.Errorf("%s: %v", test.line, err)
				continue
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %q does not contain %q", test.line, err, want)
				}
			}
			if _, err := say(context.Background(), strings.Fields(verbOf+test.line+" "+test.remedy)...); err != nil {
				t.Errorf("%s %s: %v", test.line, test.remedy, err)
			}
		}
	}
	for _, flags := range []string{"--nodes 1 --gpus-per-node 4", "--gpu-types V100:1x4,T4:1x4"} {
		line := "run --type-speeds T5=2 --jobs " + plain + " " + flags
		if _, err := say(context.Background(), strings.Fields(line)...); !errors.Is(err, verb.ErrUsage) ||
			!strings.Contains(err.Error(), "names T5") {
			t.Errorf("%s: %v", line, err)
		}
	}
	line := "run --nodes 1 --gpus-per-node 4 --order optimus --model measured --models " + models + " --jobs " + rigid
	if _, err := say(context.Background(), strings.Fields(line)...); err != nil {
		t.Errorf("a job of one size needs no scaling: %v", err)
	}
}
