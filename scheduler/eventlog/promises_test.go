package eventlog

import (
	"strings"
	"testing"
)

// TestPromises: a job on a log of conservative backfilling starts when it was promised to, or
// earlier, unless a failure, a preemption or a run that takes too long breaks the promise.
func TestPromises(t *testing.T) {
	head := strings.Replace(first, `"nodes"`, `"scheduler":{"backfill":"conservative:3"},"nodes"`, 1)
	jobs := []string{
		`{"time_s":0,"event":"arrive","job":1,"gpus":4,"estimate_s":10,"submit_s":0}`,
		`{"time_s":0,"event":"admit","job":1}`,
		`{"time_s":0,"event":"start","job":1,"run":1,"on":"0-1:0-1","speed":1}`,
		`{"time_s":0,"event":"arrive","job":2,"gpus":4,"estimate_s":10,"submit_s":0}`,
		`{"time_s":0,"event":"admit","job":2}`,
		`{"time_s":0,"event":"promise","job":2,"start_s":10}`,
	}
	const (
		finish    = `{"time_s":9,"event":"finish","job":1,"run":1}`
		late      = `{"time_s":11,"event":"finish","job":1,"run":1}`
		fail      = `{"time_s":9,"event":"fail","job":1,"run":1,"reason":"job"}`
		preempt   = `{"time_s":9,"event":"preempt","job":1,"run":1,"reason":"reallocation"}`
		other     = `{"time_s":9,"event":"node-drain","node":1}`
		start     = `{"time_s":11,"event":"start","job":2,"run":1,"on":"0-1:0-1","speed":1}`
		inTime    = `{"time_s":10,"event":"start","job":2,"run":1,"on":"0-1:0-1","speed":1}`
		later     = `{"time_s":9,"event":"promise","job":2,"start_s":12}`
		sooner    = `{"time_s":9,"event":"promise","job":2,"start_s":9.5}`
		overtaken = `{"time_s":11,"event":"promise","job":2,"start_s":12}`
	)
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{[]string{finish, inTime}, ""},
		{[]string{finish, start}, "start of job 2 for 11 s: it was promised 10 s"},
		{[]string{finish, sooner, inTime}, "for 10 s: it was promised 9.5 s"},
		{[]string{later}, "promise of job 2 for 12 s: it was promised 10 s"},
		{[]string{late, start}, ""},
		{[]string{overtaken}, ""}, // job 1 should have ended
		{[]string{fail, later}, ""},
		{[]string{preempt, start}, ""},
		{[]string{fail, sooner, start}, "promised 9.5 s"},
		{[]string{fail, other, later}, ""},
	} {
		lines := strings.Join(append([]string{head}, append(jobs, test.lines...)...), "\n") + "\n"
		_, err := read(lines)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\ngot %v, want %q", strings.Join(test.lines, "\n"), err, test.want)
		}
		if _, err := read(strings.Replace(lines, "conservative:3", "easy", 1)); err != nil {
			t.Errorf("with other backfilling: %v", err)
		}
	}
}
