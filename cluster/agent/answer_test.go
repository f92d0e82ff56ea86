package agent

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/tests/harness"
)

// text joins the lines of an answer.
func (a answered) text() string {
	var all strings.Builder
	for _, line := range a.lines {
		fmt.Fprintf(&all, "%d %s\n", line.GetProcess(), line.GetText())
	}
	return all.String()
}

// logs returns the question for a log.
func logs(of *api.Attempt, change func(*api.LogQuestion)) *api.Ask {
	q := &api.LogQuestion{Attempt: of, Process: -1}
	if change != nil {
		change(q)
	}
	return &api.Ask{Logs: q}
}

// TestLogs: a log is read while the processes write it and after they have ended, all of it or
// what is asked for.
func TestLogs(t *testing.T) {
	n := newNode(t)
	n.run()
	gates := t.TempDir()
	s := n.attached().welcome(1, hour, hour)
	order := n.shell("a", "echo one; until [ -e "+gates+"/1 ]; do sleep 0.02; done; echo two; "+
		"until [ -e "+gates+"/2 ]; do sleep 0.02; done; echo three >&2")
	second := n.shell("a", "echo other; exec sleep 1000000").GetProcesses()[0]
	order.Processes = append(order.Processes, second)
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	s.inState(one("a"), "running")
	whole := s.ask(logs(one("a"), func(q *api.LogQuestion) { q.Follow, q.Process = true, 0 }))
	harness.Eventually(t, "the first line comes", func() bool { return n.answer(whole).text() == "0 one\n" })
	for i := range 2 { // the order of two streams would be that in which they are read
		writeFile(t, fmt.Sprintf("%s/%d", gates, i+1))
		harness.Eventually(t, "the next line comes", func() bool { return len(n.answer(whole).lines) == i+2 })
	}
	if got := n.answer(whole); got.text() != "0 one\n0 two\n0 three\n" || got.lines[1].GetStderr() || !got.lines[2].GetStderr() {
		t.Errorf("the log is %v", got.lines)
	}
	if n.answer(whole).ended {
		t.Error("the answer has ended before the attempt")
	}
	dropped := s.ask(logs(one("a"), func(q *api.LogQuestion) { q.Follow, q.Process = true, 1 }))
	harness.Eventually(t, "the log of the other process comes", func() bool { return n.answer(dropped).text() == "1 other\n" })
	s.send(&api.ToAgent{Message: &api.ToAgent_Ask{Ask: &api.Ask{Question: dropped, Cancel: true}}})
	n.awaitAnswer(dropped)

	order.Do, order.GraceMs = "stop", 0
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
	n.awaitAnswer(whole)
	since := n.answer(whole).lines[1].GetUnixNs()
	for _, test := range []struct {
		change func(*api.LogQuestion)
		want   string
	}{
		{func(q *api.LogQuestion) { q.Process = 1 }, "1 other\n"},
		{func(q *api.LogQuestion) { q.Process, q.Tail = 0, 2 }, "0 two\n0 three\n"},
		{func(q *api.LogQuestion) { q.Process, q.SinceUnixNs = 0, since }, "0 two\n0 three\n"},
		{func(q *api.LogQuestion) { q.Process, q.Follow = 0, true }, "0 one\n0 two\n0 three\n"},
		{func(q *api.LogQuestion) { q.Process = 7 }, ""},
	} {
		ask := logs(one("a"), test.change)
		if got := n.awaitAnswer(s.ask(ask)); got.text() != test.want || got.err != "" {
			t.Errorf("%v: %q, %s, want %q", ask, got.text(), got.err, test.want)
		}
	}
	if got := n.awaitAnswer(s.ask(logs(one("b"), nil))); !strings.Contains(got.err, "there is no log") {
		t.Errorf("of another attempt: %v", got)
	}
	if got := n.awaitAnswer(s.ask(&api.Ask{})); !strings.Contains(got.err, "does not know the question") {
		t.Errorf("an unknown question: %v", got)
	}
}

// TestLongLog: of a log that is longer than what is kept, the end is there, and a line says how
// much is missing.
func TestLongLog(t *testing.T) {
	n := newNode(t)
	n.run()
	s := n.attached().welcome(1, hour, hour)
	limits, err := linelog.Limits{}.Check()
	if err != nil {
		t.Fatal(err)
	}
	const width = 8000
	count := int(limits.TotalBytes)*5/4/width + 1
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{n.shell("a", fmt.Sprintf("seq -f %%0%d.0f %d; echo last", width, count))}})
	s.inState(one("a"), "ended")
	got := n.awaitAnswer(s.ask(logs(one("a"), nil)))
	missing, bytes := 0, 0
	for _, line := range got.lines {
		missing += int(line.GetDropped())
		bytes += len(line.GetText())
	}
	numbers, last := got.numbers(width)
	for i, number := range numbers {
		if number != count-len(numbers)+i+1 {
			t.Fatalf("line %d of %d is number %d of %d", i, len(numbers), number, count)
		}
	}
	if before := count - len(numbers); before == 0 || missing < before || last != "last" {
		t.Errorf("%d lines before those that are kept, %d are said to be missing; the last is %q", before, missing, last)
	}
	if bytes > int(limits.TotalBytes) {
		t.Errorf("%d bytes are kept, at most %d may be", bytes, limits.TotalBytes)
	}
}

// numbers returns the numbers in lines of a width, and the line after them.
func (a answered) numbers(width int) (all []int, last string) {
	text := ""
	for _, line := range a.lines {
		if text += string(line.GetText()); line.GetPartial() { // the supervisor was slow
			continue
		}
		if number, err := strconv.Atoi(text); err == nil && len(text) == width {
			all = append(all, number)
		}
		last, text = text, ""
	}
	return all, last
}

// TestUsage: the agent says what the processes of an attempt use, and nothing of others.
func TestUsage(t *testing.T) {
	n := newNode(t)
	n.run()
	s := n.attached().welcome(1, hour, hour)
	s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{n.shell("a", "while :; do :; done")}})
	s.inState(one("a"), "running")
	harness.Eventually(t, "the process has computed", func() bool {
		got := n.awaitAnswer(s.ask(&api.Ask{Usage: &api.UsageQuestion{Attempts: []*api.Attempt{one("b"), one("a")}}}))
		if len(got.usage) != 1 || keyOf(got.usage[0].GetAttempt()) != keyOf(one("a")) || len(got.usage[0].GetProcesses()) != 1 {
			t.Fatalf("it answers %v", got.usage)
		}
		used := got.usage[0].GetProcesses()[0]
		return used.GetCpuNs() > 0 && used.GetMemoryBytes() > 0 && used.GpuBytes == nil // no phosd runs
	})
}
