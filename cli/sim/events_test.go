package sim

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// lived is what a log says of a job. Times are nanoseconds.
type lived struct {
	submit, length, start, finish, since, ran int64
	gpus, min, max, share                     int64
	user, priority, on                        string
	held                                      *big.Rat // GPU-nanoseconds
	runs, preemptions, migrations             int
	resizes, restarts                         int
	running, ended, lost                      bool
}

// replay reads a log as docs/events.md describes it, with nothing but encoding/json. It fails if a
// GPU has two jobs, or a job the wrong number of GPUs.
func replay(t *testing.T, path string) (jobs map[string]*lived, gpus int64) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	if strings.HasSuffix(path, ".gz") {
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		lines = bufio.NewScanner(unpacked)
	}
	lines.Buffer(nil, 1<<20)
	jobs = map[string]*lived{}
	used := map[string]int64{}
	count, last := 0, map[string]any(nil)
	for lines.Scan() {
		decoder := json.NewDecoder(strings.NewReader(lines.Text()))
		decoder.UseNumber()
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		count, last = count+1, line
		if count == 1 {
			for _, node := range line["nodes"].([]any) {
				n := node.(map[string]any)
				gpus += max(1, number(n, "count")) * number(n, "gpus")
			}
			continue
		}
		id, _ := line["job"].(json.Number)
		live(t, jobs, used, id.String(), line)
	}
	if lines.Err() != nil || last["event"] != "end" || number(last, "lines") != int64(count) {
		t.Fatalf("%s: %v, last line %v of %d", path, lines.Err(), last, count)
	}
	return jobs, gpus
}

// number returns a whole number, or 0.
func number(line map[string]any, key string) int64 {
	text, _ := line[key].(json.Number)
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return n
}

// nanos returns a time of seconds, exactly.
func nanos(t *testing.T, line map[string]any, key string) int64 {
	t.Helper()
	text, _ := line[key].(json.Number)
	exact, ok := new(big.Rat).SetString(cmp.Or(string(text), "0"))
	exact = new(big.Rat).Mul(exact, big.NewRat(1e9, 1))
	if !ok || !exact.IsInt() {
		t.Fatalf("%s: %q", key, text)
	}
	return exact.Num().Int64()
}

// live applies a line.
func live(t *testing.T, jobs map[string]*lived, used map[string]int64, id string, line map[string]any) {
	t.Helper()
	at, j := nanos(t, line, "time_s"), jobs[id]
	stop := func() {
		if !j.running {
			t.Fatalf("%v: it does not run", line)
		}
		for _, gpu := range expand(j.on) {
			used[gpu] -= j.share
		}
		j.ran += at - j.since
		j.held.Add(j.held, big.NewRat((at-j.since)*int64(len(expand(j.on)))*j.share, 1000))
		j.running = false
	}
	switch kind := line["event"].(string); kind {
	case "arrive":
		jobs[id] = &lived{
			submit: nanos(t, line, "submit_s"), length: nanos(t, line, "length_s"), gpus: number(line, "gpus"), start: -1,
			min: number(line, "min_gpus"), max: number(line, "max_gpus"), share: number(line, "share"), held: new(big.Rat),
		}
		j = jobs[id]
		j.user, _ = line["user"].(string)
		j.priority = strconv.FormatInt(number(line, "priority"), 10)
		if j.share == 0 {
			j.share = 1000
		}
		if j.max == 0 {
			j.min, j.max = j.gpus, j.gpus
		}
	case "start", "resume", "migrate", "grow", "shrink", "restart":
		j.on, _ = line["on"].(string)
		all := expand(j.on)
		if n := int64(len(all)); j.running || n < j.min || n > j.max {
			t.Fatalf("%v: job %+v", line, j)
		}
		for _, gpu := range all {
			if used[gpu] += j.share; used[gpu] > 1000 {
				t.Fatalf("%v: GPU %s has two jobs", line, gpu)
			}
		}
		j.runs++
		if j.start < 0 {
			j.start = at
		}
		switch kind {
		case "migrate":
			j.migrations++
		case "grow", "shrink":
			j.resizes++
		case "restart":
			j.restarts++
		}
		j.running, j.since = true, at
	case "preempt":
		stop()
		j.preemptions++
	case "fail":
		stop()
	case "finish", "give-up":
		if j.running {
			stop()
		}
		j.ended, j.lost, j.finish = true, kind == "give-up", at
	}
}

// expand returns the GPUs of a placement, each as NODE:GPU.
func expand(text string) (gpus []string) {
	span := func(text string) (from, to int) {
		a, b, _ := strings.Cut(text, "-")
		from, _ = strconv.Atoi(a)
		to, _ = strconv.Atoi(cmp.Or(b, a))
		return from, to
	}
	for _, group := range strings.Split(text, ";") {
		nodes, indices, _ := strings.Cut(group, ":")
		first, last := span(nodes)
		for node := first; node <= last; node++ {
			for _, each := range strings.Split(indices, "+") {
				from, to := span(each)
				for i := from; i <= to; i++ {
					gpus = append(gpus, fmt.Sprintf("%d:%d", node, i))
				}
			}
		}
	}
	return gpus
}

// inSystem returns the mean number of jobs in the system while one was.
func inSystem(jobs map[string]*lived, j *lived) float64 {
	if j.finish == j.submit {
		return 0
	}
	sum := 0.0
	for _, other := range jobs {
		end := j.finish
		if other.ended {
			end = min(end, other.finish)
		}
		sum += float64(max(0, end-max(j.submit, other.submit)))
	}
	return sum / float64(j.finish-j.submit)
}

// row returns what jobs.csv should have.
func (j *lived) row(jobs map[string]*lived, gpus int64) map[string]string {
	seconds := func(ns int64, ok bool) string {
		if !ok {
			return ""
		}
		return strings.TrimRight(strings.TrimRight(new(big.Rat).SetFrac64(ns, 1e9).FloatString(9), "0"), ".")
	}
	ratio := func(x float64, ok bool) string {
		if !ok {
			return ""
		}
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	jct, done := j.finish-j.submit, j.ended && !j.lost
	held, _ := new(big.Rat).Quo(j.held, big.NewRat(1e9, 1)).Float64()
	asks := float64(j.gpus*j.share) / 1000
	part := max(1, asks*inSystem(jobs, j)/float64(gpus))
	size, length := "small", "short"
	if j.gpus > 4 {
		size = "large"
	}
	if j.length > 3600e9 {
		length = "long"
	}
	outcome := "unfinished"
	if j.ended {
		outcome = "done"
	}
	if j.lost {
		outcome = "failed"
	}
	return map[string]string{
		"submit_s": seconds(j.submit, true), "start_s": seconds(j.start, j.runs > 0), "finish_s": seconds(j.finish, j.ended),
		"preemptions": strconv.Itoa(j.preemptions), "user": j.user, "class": size + "-" + length, "priority": j.priority,
		"gpus": strconv.FormatInt(j.gpus, 10), "outcome": outcome, "start_delay_s": seconds(j.start-j.submit, j.runs > 0),
		"wait_s": seconds(jct-j.ran, j.ended), "run_s": seconds(j.ran, true),
		"slowdown":             ratio(float64(jct)/float64(j.length), done),
		"bounded_slowdown":     ratio(max(1, float64(jct)/float64(max(j.length, 10e9))), done),
		"finish_time_fairness": ratio(float64(jct)/float64(j.length)/part, done),
		"gpu_s_requested":      ratio(float64(j.length)/1e9*asks, true), "gpu_s": ratio(held, true),
		"runs": strconv.Itoa(j.runs), "migrations": strconv.Itoa(j.migrations), "resizes": strconv.Itoa(j.resizes),
		"restarts": strconv.Itoa(j.restarts), "placement": j.on,
	}
}

// TestEventsReplay reads logs of many kinds of schedulers by replay, which shares no code with the
// simulator: each line of jobs.csv, and the figures of summary.json, follow from the log.
func TestEventsReplay(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(3, 3))
	rigid, elastic := strings.Builder{}, strings.Builder{}
	rigid.WriteString("job_id,submit_s,duration_s,num_gpus,user,priority,share,gpu_type\n")
	elastic.WriteString("job_id,submit_s,duration_s,num_gpus,user,min_gpus,max_gpus\n")
	submit := 0.0
	for id := range 150 {
		submit += float64(random.IntN(150)) / 4
		length, gpus, share, kind := 1+random.IntN(600), 1+random.IntN(8), 1.0, []string{"", "", "A", "B"}[random.IntN(4)]
		if gpus == 1 && id%2 == 0 {
			share = 0.25
		}
		fmt.Fprintf(&rigid, "%d,%v,%d.125,%d,u%d,%d,%v,%s\n", id, submit, length, gpus, id%3, random.IntN(3), share, kind)
		fmt.Fprintf(&elastic, "%d,%v,%d.125,%d,u%d,1,%d\n", id, submit, length, gpus, id%3, 2*gpus)
	}
	first, second := file(t, dir, "rigid.csv", rigid.String()), file(t, dir, "elastic.csv", elastic.String())
	costs := file(t, dir, "costs.csv", "save_s,load_s\n3,5.5\n")
	nodes := file(t, dir, "nodes.csv", "time_s,node,event\n300,0,down\n500,1,drain\n700,0,up\n900,1,up\n")
	ranked := " --gpu-types A:3x4,B:2x8 --type-speeds A=1,B=2 --jobs " + first // by orders that read priorities
	rigidOn, elasticOn := ranked+" --ignore-priority", " --nodes 4 --gpus-per-node 4 --jobs "+second
	for i, flags := range []string{
		"fifo" + rigidOn,
		"fifo --backfill easy --estimate-error 1" + rigidOn,
		"fifo --backfill conservative --job-mtbf 2000 --retries 2" + rigidOn,
		"srtf --placement best-fit --cost " + costs + rigidOn,
		"las --quantum 30 --node-events " + nodes + rigidOn,
		"las2d --admission load:1.1 --round 20 --cost " + costs + rigidOn,
		"dlas-gpu --limits 300,3000 --until 2000" + rigidOn,
		"drf --admission quota:1.5 --node-mtbf 4000 --node-repair 200" + ranked,
		"priority --preemptive-priority --victims cheapest --cost " + costs + ranked,
		"themis --lease 100" + rigidOn,
		"synthesizer" + rigidOn,
		"optimus --node-events " + nodes + elasticOn,
		"pollux --job-mtbf 1500" + elasticOn,
		"gavel --cost " + costs + elasticOn,
	} {
		t.Run(strings.Fields(flags)[0], func(t *testing.T) {
			out, log := t.TempDir(), filepath.Join(t.TempDir(), "events.jsonl"+[]string{"", ".gz"}[i%2])
			line := "run --no-pictures --out " + out + " --events " + log + " --order " + flags
			if _, err := say(context.Background(), strings.Fields(line)...); err != nil {
				t.Fatal(err)
			}
			if text, err := say(context.Background(), "check", "--events", log); err != nil ||
				!strings.Contains(text, "consistent") {
				t.Errorf("%s, %v", text, err)
			}
			jobs, gpus := replay(t, log)
			compareJobs(t, filepath.Join(out, "jobs.csv"), jobs, gpus)
			compareFigures(t, filepath.Join(out, "summary.json"), jobs, gpus)
		})
	}
}

// compareJobs compares each line of jobs.csv.
func compareJobs(t *testing.T, path string, jobs map[string]*lived, gpus int64) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, line := range lines[1:] {
		j := jobs[line[0]]
		if j == nil { // the simulation was cut off before it arrived
			continue
		}
		seen++
		want := j.row(jobs, gpus)
		if !j.ended {
			delete(want, "run_s") // until the cut
			delete(want, "gpu_s")
		}
		for i, column := range lines[0] {
			if value, ok := want[column]; ok && !same(line[i], value) {
				t.Fatalf("job %s: %s: got %q, the log says %q", line[0], column, line[i], value)
			}
		}
	}
	if seen != len(jobs) {
		t.Errorf("%d of %d jobs of the log are in jobs.csv", seen, len(jobs))
	}
}

// same reports whether two values are equal: numbers to 9 decimals.
func same(got, want string) bool {
	a, errA := strconv.ParseFloat(got, 64)
	b, errB := strconv.ParseFloat(want, 64)
	return got == want || errA == nil && errB == nil && math.Abs(a-b) <= 1.1e-9*max(1, math.Abs(b))
}

// compareFigures compares figures that need more than one job.
func compareFigures(t *testing.T, path string, jobs map[string]*lived, gpus int64) {
	t.Helper()
	var got struct {
		Wait    map[string]float64 `json:"wait_s"`
		Bounded map[string]float64 `json:"bounded_slowdown"`
		Rho     map[string]float64 `json:"finish_time_fairness"`
		Index   float64            `json:"fairness_index"`
		ByUser  []struct {
			Name string
			Mean float64 `json:"avg_jct_s"`
		} `json:"by_user"`
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	var waits, bounded, rhos []float64
	taken, asked, sums, counts := map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, j := range jobs {
		if !j.ended {
			continue
		}
		jct := float64(j.finish - j.submit)
		held, _ := j.held.Float64()
		taken[j.user] += held
		asked[j.user] += jct * float64(j.gpus*j.share) / 1000
		sums[j.user] += jct / 1e9
		counts[j.user]++
		waits = append(waits, (jct-float64(j.ran))/1e9)
		if !j.lost {
			bounded = append(bounded, max(1, jct/float64(max(j.length, 10e9))))
			asks := float64(j.gpus*j.share) / 1000
			rhos = append(rhos, jct/float64(j.length)/max(1, asks*inSystem(jobs, j)/float64(gpus)))
		}
	}
	sum, squares := 0.0, 0.0
	for user := range taken {
		x := taken[user] / asked[user]
		sum, squares = sum+x, squares+x*x
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-8*max(1, math.Abs(want)) {
			t.Errorf("%s: got %v, the log says %v", what, got, want)
		}
	}
	near("fairness index", got.Index, sum*sum/(float64(len(taken))*squares))
	for _, user := range got.ByUser {
		if counts[user.Name] > 0 {
			near("JCT of "+user.Name, user.Mean, sums[user.Name]/counts[user.Name])
		}
	}
	for _, each := range []struct {
		name   string
		got    map[string]float64
		values []float64
	}{{"wait", got.Wait, waits}, {"bounded slowdown", got.Bounded, bounded}, {"rho", got.Rho, rhos}} {
		slices.Sort(each.values)
		mean, n := 0.0, len(each.values)
		for _, value := range each.values {
			mean += value / float64(n)
		}
		near(each.name+" mean", each.got["mean"], mean)
		near(each.name+" max", each.got["max"], each.values[n-1])
		place := 0.95 * float64(n-1)
		low, high := each.values[int(place)], each.values[min(n-1, int(place)+1)]
		near(each.name+" p95", each.got["p95"], low+(high-low)*(place-math.Floor(place)))
	}
}
