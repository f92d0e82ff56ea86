package eventlog

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/scheduler/workload"
)

// TestTrace has a log of a cluster, and computes by hand how long each job has worked.
func TestTrace(t *testing.T) {
	const log = `{"time_s":0,"event":"adopt","job":1,"gpus":2,"submit_s":0,"user":"a","phase":"running","run":3,"on":"0:0-1",` +
		`"done_s":50}
{"time_s":0,"event":"arrive","job":2,"gpus":1,"submit_s":0,"estimate_s":9,"priority":2,"name":"x"}
{"time_s":0,"event":"admit","job":2}
{"time_s":0,"event":"start","job":2,"run":1,"on":"1:0","load_s":5}
{"time_s":0,"event":"adopt","job":3,"gpus":1,"submit_s":0,"run":1,"done_s":7}
{"time_s":8,"event":"work","job":2,"run":1}
{"time_s":10,"event":"give-back","job":1,"run":3,"on":"0:0","done_s":60,"speed":0.5}
{"time_s":12,"event":"migrate","job":3,"run":2,"on":"0:1","done_s":7}
{"time_s":13,"event":"refuse","job":3,"run":2}
{"time_s":14,"event":"arrive","job":4,"gpus":1,"submit_s":14}
{"time_s":14,"event":"withdraw","job":4}
{"time_s":14,"event":"arrive","job":5,"gpus":1,"submit_s":14}
{"time_s":18,"event":"preempt","job":2,"run":1,"reason":"reallocation"}
{"time_s":20,"event":"keep","job":2,"run":1,"on":"1:0","done_s":12}
{"time_s":21,"event":"finish","job":2,"run":1}
{"time_s":30,"event":"finish","job":1,"run":3}
{"time_s":31,"event":"migrate","job":3,"run":3,"on":"0:1","done_s":7}
{"time_s":35,"event":"fail","job":3,"run":3,"reason":"job"}
{"time_s":36,"event":"restart","job":3,"run":4,"on":"0:1","done_s":7,"ready_s":37}
{"time_s":40,"event":"withdraw","job":3,"run":4}
`
	// Job 1 has 50 s behind it, works for 10 s and then for 20 s at half speed. Job 2 works from 8 to
	// 21, although it was to be preempted. Job 3 loses its third run, and works from 37 to 40 behind
	// its 7 s.
	const want = `job_id,submit_s,duration_s,num_gpus,name,user,priority,estimate_s
1,0,70,2,,a,,0
2,0,13,1,x,,2,9
3,0,10,1,,,,0
`
	text := first + "\n" + log
	if _, err := read(text); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(strings.NewReader(text), "log")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Trace(r)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := workload.Write(&got, trace.Jobs); err != nil || got.String() != want {
		t.Errorf("%v, got\n%s", err, got.String())
	}
	notes := `["1 job withdrawn or given up: as long as they had worked" ` +
		`"1 job left out: they ended before they had worked" "1 job left out: they had not ended"]`
	if fmt.Sprintf("%q", trace.Notes) != notes || len(trace.Nodes) != 2 {
		t.Errorf("got %q, %v", trace.Notes, trace.Nodes)
	}
}

// FuzzTrace: whatever a log says, no job of its trace has a negative length, and it can be written.
func FuzzTrace(f *testing.F) {
	f.Add(`{"time_s":0,"event":"arrive","job":1,"gpus":1,"submit_s":0}` + "\n" +
		`{"time_s":0,"event":"start","job":1,"run":1,"on":"0:0","done_s":9000000000,"speed":1000000}` + "\n" +
		`{"time_s":9000000000,"event":"finish","job":1,"run":1}` + "\n")
	f.Add(`{"time_s":0,"event":"adopt","job":1,"gpus":1,"submit_s":0,"phase":"running","run":2,"on":"0:1",` +
		`"speed":1e300}` + "\n")
	f.Add(`{"time_s":0,"event":"adopt","job":-1,"gpus":0,"submit_s":0,"done_s":3,"user":" \n,\""}` + "\n" +
		`{"time_s":1,"event":"withdraw","job":-1}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := NewReader(strings.NewReader(first+"\n"+text), "log")
		if err != nil {
			t.Fatal(err)
		}
		trace, err := Trace(r)
		if err != nil {
			return
		}
		for i := range trace.Jobs.All() {
			if trace.Jobs.At(i).Length < 0 {
				t.Errorf("got %+v", trace.Jobs.At(i))
			}
		}
		if err := workload.Write(io.Discard, trace.Jobs); err != nil {
			t.Error(err)
		}
	})
}
