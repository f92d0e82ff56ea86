package workload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const head4 = "job_id,submit_s,duration_s,num_gpus\n"

// bad is an invalid file, and its error.
type bad struct {
	what, format, text string
	want               string // the whole error, with FILE for the file's name
}

var badFiles = []bad{
	{"empty", "", "", "FILE: want a header and jobs; the file is empty"},
	{"blank", "csv", "\n \n", "FILE: want a header and jobs; the file is empty"},
	{"only a header", "", head4, "FILE: want at least one job"},
	{
		"wrong column", "", "job_id,submit_s,duration_s,gpus\n0,0,1,1\n",
		`FILE:1: got "gpus", want a column out of arrival_s, ` + strings.Join(columns, ", "),
	},
	{
		"missing column",
		"",
		"job_id,submit_s,duration_s\n0,0,1\n",
		`FILE:1: got "job_id,submit_s,duration_s", want a column num_gpus`,
	},
	{
		"both times",
		"",
		"job_id,submit_s,arrival_s,duration_s,num_gpus\n",
		`FILE:1: got "job_id,submit_s,arrival_s,duration_s,num_gpus", want one of submit_s and arrival_s`,
	},
	{"column twice", "", "job_id,job_id\n", `FILE:1: got "job_id", want each column once`},
	{"negative time", "", head4 + "0,0,1,1\n1,-5,1,1\n", `FILE:3: submit_s: got "-5", want ` + wantSeconds},
	{"negative length", "", head4 + "0,0,-0.1,1\n", `FILE:2: duration_s: got "-0.1", want ` + wantSeconds},
	{"NaN", "", head4 + "0,NaN,1,1\n", `FILE:2: submit_s: got "NaN", want ` + wantSeconds},
	{"infinite", "", head4 + "0,0,+Inf,1\n", `FILE:2: duration_s: got "+Inf", want ` + wantSeconds},
	{"too late", "", head4 + "0,1e10,1,1\n", `FILE:2: submit_s: got "1e10", want ` + wantSeconds},
	{"no GPU", "", head4 + "0,0,1,0\n", `FILE:2: num_gpus: got "0", want ` + wantCount},
	{"half a GPU", "", head4 + "0,0,1,1.5\n", `FILE:2: num_gpus: got "1.5", want ` + wantCount},
	{"GPUs by name", "", head4 + "0,0,1,many\n", `FILE:2: num_gpus: got "many", want ` + wantCount},
	{"negative id", "", head4 + "-1,0,1,1\n", `FILE:2: job_id: got "-1", want ` + wantID},
	{
		"an id that no job can have",
		"",
		head4 + "0,0,1,1\n9223372036854775808,0,1,1\n",
		`FILE:3: job_id: got "9223372036854775808", want ` + wantID,
	},
	{
		"an id of twenty digits",
		"",
		head4 + "18446744073709551616,0,1,1\n",
		`FILE:2: job_id: got "18446744073709551616", want ` + wantID,
	},
	{
		"ids twice",
		"",
		head4 + "0,0,1,1\n2,0,1,1\n1,0,1,1\n\n2,0,1,1\n",
		`FILE:6: job_id: got "2", want a number of its own; line 3 has the same`,
	},
	{"value too few", "", head4 + "0,0,1\n", `FILE:2: got "0,0,1", want 4 values, one for each column; there are 3`},
	{
		"value too many",
		"",
		head4 + "0,0,1,1,\n",
		`FILE:2: got "0,0,1,1,", want 4 values, one for each column; there are 5`,
	},
	{
		"open quote",
		"",
		head4 + "0,0,1,\"1\n",
		`FILE:2: got "0,0,1,\"1", want each quote closed in its line, and a comma behind it`,
	},
	{
		"priority",
		"",
		"job_id,submit_s,duration_s,num_gpus,priority\n0,0,1,1,high\n",
		`FILE:2: priority: got "high", want a whole number`,
	},
	{
		"estimate",
		"",
		"job_id,submit_s,duration_s,num_gpus,estimate_s\n0,0,1,1,-2\n",
		`FILE:2: estimate_s: got "-2", want ` + wantSeconds,
	},
	{
		"share of two", "", "job_id,submit_s,duration_s,num_gpus,share\n0,0,1,2,0.5\n",
		`FILE:2: share: got "0.5", want a part of a GPU from 0.001 to 1, and less than 1 only with one GPU`,
	},
	{
		"bounds",
		"",
		"job_id,submit_s,duration_s,num_gpus,min_gpus\n0,0,1,2,3\n",
		`FILE:2: min_gpus: got "3", want at most num_gpus`,
	},
	{
		"million characters",
		"",
		head4 + "0,0,1," + strings.Repeat("1", 1_000_000) + "\n",
		`FILE:2: num_gpus: got "0,0,1,` + strings.Repeat("1", 54) + `…", want a line of at most 65536 bytes`,
	},
	{
		"million characters first",
		"",
		strings.Repeat("x", 1_000_000),
		`FILE:1: got "` + strings.Repeat("x", 60) + `…", want a line of at most 65536 bytes`,
	},
	{"archive", "", tarHead(), "FILE: want a file, not an archive of files; unpack it first"},
	{
		"binary",
		"",
		"\x00\x01\xfe\xff\n",
		`FILE:1: got "\x00\x01\xfe\xff", want text without zero bytes`,
	},
	{
		"binary line", "", head4 + strings.Repeat("\x00", 70_000) + "\n",
		`FILE:2: job_id: got "` + strings.Repeat(`\x00`, 15) + `…", want a line of at most 65536 bytes`,
	},
	{
		"unprintable", "", head4 + strings.Repeat("\x01", 1000) + ",1,1,1\n",
		`FILE:2: job_id: got "` + strings.Repeat(`\x01`, 15) + `…", want ` + wantID,
	},
	{
		"long column", "", strings.Repeat("x", 30_000) + "," + strings.Repeat("y", 30_000) + "\n",
		`FILE:1: got "` + strings.Repeat(
			"x",
			60,
		) + `…", want a column out of arrival_s, job_id, submit_s, duration_s, ` +
			`num_gpus, name, user, model, gpu_type, priority, estimat…`,
	},
	{
		"infinite steps", "", "m\tc\td\ta\t1\t1e308\t4\tgns\t1\t-1.0\t100\t6\n",
		`FILE:1: total steps: got "1e308", want a whole number of 1 or more`,
	},

	{
		"philly truncated",
		"",
		"[{\"jobid\": \"a\",\n\"submitted_time\": \"2017-10-07 01:11:30\",\n\"att",
		"FILE:3: want the rest of the list; the file ends within it",
	},
	{"philly not closed", "", "[{\"jobid\": \"a\"}\n", "FILE:2: want the rest of the list; the file ends within it"},
	{"philly no list", "", `{"jobid": "a"}`, `FILE:1: got "{", want a JSON list of jobs, [{…}, …]`},
	{"philly empty", "philly", "", "FILE: want a JSON list of jobs; the file is empty"},
	{"philly syntax", "", "[\n{\"jobid\" \"a\"}]", "FILE:2: want JSON; invalid character '\"' after object key"},
	{"philly entry", "", "[{\"jobid\": \"a\"},\n7]", `FILE:2: [1]: got "number", want an object, {…}`},
	{
		"philly attempts",
		"",
		`[{"jobid": "a", "attempts": "x"}]`,
		`FILE:1: [0].Attempts: got "string", want a list, […]`,
	},
	{
		"philly type",
		"",
		"[{\"jobid\": \"a\"},\n{\"jobid\": \"b\",\n\"user\": 7}]",
		`FILE:3: [1].user: got "number", want a string`,
	},
	{
		"philly time", "", "[{\"jobid\": \"a\", \"submitted_time\": \"2017-10-07 01:11:30\",\n\"attempts\": " +
			"[{\"start_time\": \"x\",\n\"end_time\": \"y\"}]}]",
		`FILE:2: attempts[0].start_time: got "x", want ` + wantClock,
	},
	{
		"philly twice",
		"",
		"[{\"jobid\": \"a\"},\n{\"jobid\": \"a\"}]",
		`FILE:2: jobid: got "a", want a name of its own; line 1 has the same`,
	},
	{"philly nameless", "", `[{}]`, `FILE:1: jobid: got "", want a name`},

	{
		"helios column",
		"helios",
		"job_id,gpu_num,submit_time,duration\n",
		`FILE:1: got "job_id,gpu_num,submit_time,duration", want a column user`,
	},
	{
		"helios time",
		"",
		helios + "1,u,v,1,2020-13-01 00:00:00,5\n",
		`FILE:2: submit_time: got "2020-13-01 00:00:00", want ` + wantClock,
	},
	{
		"helios length",
		"",
		helios + "1,u,v,1,2020-12-01 00:00:00,-5\n",
		`FILE:2: duration: got "-5", want ` + wantSeconds,
	},
	{
		"helios twice",
		"",
		helios + "1,u,v,1,2020-12-01 00:00:00,5\n1,u,v,1,2020-12-01 00:00:00,5\n",
		`FILE:3: job_id: got "1", want a number of its own; line 2 has the same`,
	},

	{
		"pai without tasks",
		"",
		"job-a,inst1,user1,Failed,100.0,206.0\n",
		"FILE: want pai_task_table.csv in the same folder, which says how many GPUs a job needs",
	},
	{
		"pai GPUs",
		"",
		"j,worker,1.0,Failed,1.0,2.0,600.0,29.3,half,T4\n",
		`FILE:1: plan_gpu: got "half", want hundredths of a GPU, a number of 0 or more`,
	},
	{
		"pai values",
		"",
		"j,worker,1.0,Failed,1.0,2.0,600.0,29.3,50,T4\nk\n",
		`FILE:2: got "k", want 10 values, one for each column; there are 1`,
	},
	{
		"pai idle",
		"",
		"j,worker,1.0,Failed,1.0,2.0,600.0,29.3,,T4\n",
		"FILE: want at least one job; 1 job left out: they need no GPU",
	},

	{
		"openb GPUs",
		"",
		openb + "p,1,1100,1,2,1\n",
		`FILE:2: gpu_milli: got "1100", want thousandths of a GPU, from 0 to 1000`,
	},
	{
		"openb without times", "", "name,num_gpu,gpu_milli\np,2,1000\n",
		"FILE: want openb_pod_list_default.csv in the same folder, or named by --beside: this list has no times",
	},
	{
		"openb without an end", "", "name,num_gpu,gpu_milli,creation_time,scheduled_time\np,2,1000,1,2\n",
		`FILE:1: got "name,num_gpu,gpu_milli,creation_time,scheduled_time", want a column deletion_time`,
	},
	{
		"openb backwards",
		"",
		openb + "p,1,100,1,2,3\n",
		`FILE:2: deletion_time: got "2", want a time after scheduled_time`,
	},
	{
		"openb twice",
		"",
		openb + "p,1,100,1,9,3\np,1,100,1,9,3\n",
		`FILE:3: name: got "p", want a name of its own; line 2 has the same`,
	},

	{
		"gavel without rates", "", "m\tc\ta\t1\t10\t0\t1\n",
		"FILE: want Gavel's simulation_throughputs.json in the folder or above it, or --beside: the trace counts steps, " +
			"not seconds",
	},
	{"gavel words", "gavel", "m\tc\ta\n", `FILE:1: got "m c a", want 7, 10 or 12 words between tabs; there are 3`},
	{
		"gavel steps",
		"",
		strings.Replace(shockwave, "9000", "-9", 1),
		`FILE:1: total steps: got "-9", want a whole number of 1 or more`,
	},
	{
		"gavel GPUs",
		"",
		strings.Replace(shockwave, "4\tgns", "0\tgns", 1),
		`FILE:1: scale factor: got "0", want ` + wantCount,
	},

	{
		"pollux without lengths",
		"",
		"name,time,application,num_replicas,batch_size\na,1,b,1,1\n",
		`FILE:2: application: got "b", want one of bert, cifar10, deepspeech2, imagenet, ncf, yolov3; others need a ` +
			"durations.csv (application,num_replicas,batch_size,duration_s)",
	},
	{
		"pollux batch",
		"",
		"name,time,application,num_replicas,batch_size\na,1,bert,1,0\n",
		`FILE:2: batch_size: got "0", want a whole number of 1 or more`,
	},
	{
		"pollux time",
		"",
		"timestamp,duration,num_gpus\nyesterday,1,1\n",
		`FILE:2: timestamp: got "yesterday", want ` + wantClock,
	},

	{"swf fields", "", "; Version: 2.2\n1 2 3\n", `FILE:2: got "1 2 3", want 18 numbers; there are 3`},
	{
		"swf number",
		"",
		"1 x 0 1 1 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 -1\n",
		`FILE:1: submit time: got "x", want ` + wantSeconds,
	},
	{
		"swf id",
		"",
		swfLine + "9999999999999999999" + swfLine[1:],
		`FILE:2: job number: got "9999999999999999999", want ` + wantID,
	},
	{
		"swf length",
		"",
		"1 0 0 -2 1 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 -1\n",
		`FILE:1: run time: got "-2", want ` + wantSeconds + ", or -1",
	},
	{
		"swf status", "", strings.Replace(swfLine, "1 1 1 -1 1 -1", "done 1 1 -1 1 -1", 1),
		`FILE:1: status: got "done", want a whole number, or -1 if unknown`,
	},
	{
		"swf infinite", "", "1 0 0 1e308 1 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 -1\n",
		`FILE:1: run time: got "1e308", want ` + wantSeconds + ", or -1",
	},
	{
		"swf processors", "", "1 0 0 1 99999999999999999999 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 -1\n",
		`FILE:1: allocated processors: got "99999999999999999999", want a whole number, or -1 if unknown`,
	},
	{"swf twice", "", swfLine + swfLine, `FILE:2: job_id: got "1", want a number of its own; line 1 has the same`},
	{"swf comments", "", "; nothing\n", "FILE: want at least one job"},
}

const (
	helios    = "job_id,user,vc,gpu_num,submit_time,duration\n"
	openb     = "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
	shockwave = "m\tc\td\ta\t1\t9000\t4\tgns\t1\t-1.0\t100\t6\n"
	swfLine   = "1 0 0 1 1 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 -1\n"
)

// tarHead returns the beginning of an archive.
func tarHead() string {
	head := []byte(strings.Repeat("\x00", 512))
	copy(head, "trace/jobs.csv")
	copy(head[257:], "ustar")
	return string(head)
}

func TestBadFiles(t *testing.T) {
	for _, b := range badFiles {
		t.Run(strings.ReplaceAll(b.what, " ", "-"), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs.csv")
			if err := os.WriteFile(path, []byte(b.text), 0o644); err != nil {
				t.Fatal(err)
			}
			trace, err := Read(path, Options{Format: b.format})
			if err == nil {
				t.Fatalf("read as %+v", trace)
			}
			if got := strings.ReplaceAll(err.Error(), "jobs.csv", "FILE"); got != b.want {
				t.Errorf("got  %s\nwant %s", got, b.want)
			}
			if len([]rune(err.Error())) > 200 {
				t.Errorf("the error has %d characters", len([]rune(err.Error())))
			}
			var typed *Error
			if !errors.As(err, &typed) || typed.File != "jobs.csv" || typed.Want == "" {
				t.Errorf("the error is %#v", err)
			}
			if trace.Jobs != nil {
				t.Error("Read returned jobs and an error")
			}
		})
	}
}

// TestBadNeighbours: an invalid second file is named in the error.
func TestBadNeighbours(t *testing.T) {
	for _, b := range []struct{ file, text, beside, content, want string }{
		{
			"a.trace", "m\tc\ta\t1\t10\t0\t1\n", "throughputs.json", "{",
			"throughputs.json: want JSON, by kind of GPU and model; unexpected EOF",
		},
		{
			"a.trace", "m\tc\ta\t1\t10\t0\t1\n", "throughputs.json", `{"v100": {"('m', 1)": {"null": -1}}}`,
			`throughputs.json: v100.('m', 1).null: got "-1", want steps a second`,
		},
		{
			"a.trace", "m\tc\ta\t1\t10\t0\t1\n", "throughputs.json", `{"v100": {}}`,
			`a.trace:1: model: got "m", want one that the table of throughputs has, as ('m', 1)`,
		},
		{
			"w.csv", "name,time,application,num_replicas,batch_size\na,1,b,1,1\n", "durations.csv",
			"application,num_replicas,batch_size,duration_s\nb,1,2,x\n",
			`durations.csv:2: duration_s: got "x", want ` + wantSeconds,
		},
		{
			"w.csv", "name,time,application,num_replicas,batch_size\na,1,b,1,1\n", "durations.csv",
			"application,num_replicas,batch_size,duration_s\nb,1,2,5\n",
			`w.csv:2: application: got "b", want one that durations.csv has with num_replicas 1 and batch_size 1`,
		},
		{
			"p.csv", openb + "p,1,100,1,9,3\n", "openb_node_list_x.csv", "sn,gpu,model\nn,65,T4\n",
			`openb_node_list_x.csv:2: gpu: got "65", want a whole number from 0 to 64`,
		},
	} {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, b.file), []byte(b.text), 0o644)
		os.WriteFile(filepath.Join(dir, b.beside), []byte(b.content), 0o644)
		if _, err := Read(filepath.Join(dir, b.file), Options{}); err == nil || err.Error() != b.want {
			t.Errorf("got  %v\nwant %s", err, b.want)
		}
	}
}

func TestNotReadable(t *testing.T) {
	if _, err := Read(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := ReadFrom(strings.NewReader(""), "f", Options{Format: "xml"}); err == nil ||
		!strings.Contains(err.Error(), "want one of philly, helios") {
		t.Errorf("an unknown format: %v", err)
	}
	if _, err := ReadFrom(strings.NewReader("\x1f\x8bnothing"), "f", Options{}); err == nil {
		t.Error("an invalid gzip file was read")
	}
	whole := zipped(t, []byte(head4+strings.Repeat("1,2,3,4\n", 9999)))
	if _, err := ReadFrom(strings.NewReader(string(whole[:len(whole)/2])), "f", Options{}); err == nil ||
		!strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("half a gzip: %v", err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir, Options{}); err == nil || err.Error() != dir+": want a file, not a folder" {
		t.Errorf("%v", err)
	}
}
