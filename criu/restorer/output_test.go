package restorer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOutput checks that a tree's output becomes escaped lines of the log with a name, and that the
// rest is dropped and counted.
func TestOutput(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1e9, 0)
	o := newOutput(nil, false, 123, 1000)
	o.to, o.now, o.last = &log, func() time.Time { return now }, now
	forged := "time=now level=ERROR msg=forged\n"
	o.copyAll(strings.NewReader("one\r\n\x1b[2Jtwo\x07\n" + forged + strings.Repeat("x", maxLine+1) + "\nlast"))
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	if len(lines) != 6 {
		t.Fatalf("got %d lines, want 6:\n%s", len(lines), log.String())
	}
	for i, line := range lines {
		if !strings.Contains(line, `msg="output of a restored program" pid=123 uid=1000 text=`) ||
			strings.ContainsAny(line, "\x1b\x07\r") {
			t.Errorf("line %d: got %q, want the tree's name and no control characters", i, line)
		}
	}
	if !strings.HasSuffix(lines[2], `text="time=now level=ERROR msg=forged"`) ||
		!strings.HasSuffix(lines[5], "text=last") {
		t.Errorf("got %q and %q, want quoted text", lines[2], lines[5])
	}
	log.Reset()
	for _, flood := range []string{"a flood\n", "\n", "\x1b\x00\x07\xff\n"} {
		now = now.Add(time.Hour)
		o.copyAll(strings.NewReader(strings.Repeat(flood, 1<<20)))
		if log.Len() > burstBytes || o.dropped < 1<<19 {
			t.Errorf("flood of %q: got %d bytes of log and %d dropped, want at most %d", flood, log.Len(), o.dropped, burstBytes)
		}
		log.Reset()
	}
	log.Reset()
	all := 0
	for range 1000 {
		now = now.Add(time.Hour)
		o.copyAll(strings.NewReader(strings.Repeat("\n", 1<<12)))
	}
	if all = log.Len(); !strings.Contains(log.String(), "dropped_bytes=") || all > maxOutput || all < maxOutput/2 {
		t.Errorf("got %d bytes in all, want about %d, and dropped_bytes in the log", all, maxOutput)
	}
}

// TestJSONOutput checks that each line of a tree's output is one JSON object, with the text in it.
func TestJSONOutput(t *testing.T) {
	var log bytes.Buffer
	o := newOutput(nil, true, 123, 1000)
	o.to = &log
	o.copyAll(strings.NewReader("plain\n{\"level\":\"ERROR\"}\nred \x1b[31m\u009b31m\x7f\nbad \xff\n"))
	var texts []string
	for line := range strings.Lines(log.String()) {
		var got struct {
			Level, Msg, Text string
			PID, UID         int
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.PID != 123 || got.UID != 1000 || got.Level != "INFO" {
			t.Errorf("%q: got %+v, %v", line, got, err)
		}
		if strings.ContainsAny(line, "\x1b\x7f\u009b") {
			t.Errorf("%q: got a control character", line)
		}
		texts = append(texts, got.Text)
	}
	want := []string{"plain", `{"level":"ERROR"}`, "red \x1b[31m\ufffd31m\ufffd", "bad \ufffd"}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}
