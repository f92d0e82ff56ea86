package eventlog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Writer writes a log. It keeps the first error, which all later calls return.
type Writer struct {
	to    *bufio.Writer
	line  []byte
	lines int64
	err   error
}

// headerLine is the header as JSON.
type headerLine struct {
	Format    string     `json:"format"`
	Version   string     `json:"version"`
	Source    string     `json:"source"`
	Began     string     `json:"began,omitempty"`
	Nodes     []nodeLine `json:"nodes"`
	Scheduler any        `json:"scheduler,omitempty"`
}

// nodeLine is a node, or several in a row that are equal.
type nodeLine struct {
	Node           cluster.NodeID `json:"node"`
	Count          int            `json:"count,omitempty"` // 0 means 1
	Name           string         `json:"name,omitempty"`
	GPUs           int            `json:"gpus"`
	GPUType        string         `json:"gpu_type,omitempty"`
	GPUMemoryBytes int64          `json:"gpu_memory_bytes,omitempty"`
	Rack           string         `json:"rack,omitempty"`
}

// NewWriter writes the header. Nodes must be numbered from 0.
func NewWriter(to io.Writer, h Header) (*Writer, error) {
	w := &Writer{to: bufio.NewWriterSize(to, 64<<10)}
	line := headerLine{
		Format: Name, Version: fmt.Sprintf("%d.%d", Major, Minor), Source: h.Source, Began: h.Began, Nodes: nodeLines(h.Nodes),
		Scheduler: h.Scheduler,
	}
	text, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("write log of events: %w", err)
	}
	w.line = append(w.line, text...)
	return w, w.writeLine()
}

// nodeLines puts equal nodes together.
func nodeLines(nodes []cluster.Node) []nodeLine {
	lines := []nodeLine{}
	for i := range nodes {
		next := lineOf(&nodes[i])
		if last := len(lines) - 1; last >= 0 {
			was := lines[last]
			was.Node, was.Count = next.Node, 0
			if was == next {
				lines[last].Count = max(1, lines[last].Count) + 1
				continue
			}
		}
		lines = append(lines, next)
	}
	return lines
}

// lineOf returns a node's line. A name that only repeats the number is left out.
func lineOf(n *cluster.Node) nodeLine {
	line := nodeLine{
		Node: n.ID, Name: n.Name, GPUs: n.GPUs, GPUType: n.GPUType, GPUMemoryBytes: n.GPUMemoryBytes, Rack: n.Rack,
	}
	if line.Name == usualName(n.ID) {
		line.Name = ""
	}
	return line
}

// usualName is the name of a node that was not given one.
func usualName(id cluster.NodeID) string { return "node" + strconv.Itoa(int(id)) }

// writeLine writes w.line.
func (w *Writer) writeLine() error {
	if w.err == nil {
		w.line = append(w.line, '\n')
		_, w.err = w.to.Write(w.line)
		w.lines++
	}
	w.line = w.line[:0]
	return w.err
}

// Write writes an event.
func (w *Writer) Write(e *Event) error {
	if w.err != nil {
		return w.err
	}
	w.line = append(w.line, `{"time_s":`...)
	w.line = words.AppendSeconds(w.line, e.At)
	w.text("event", string(e.Kind))
	switch {
	case e.Kind.ofNode():
		w.int("node", int64(e.Node))
		if e.Kind.ofGPU() {
			w.int("gpu", int64(e.GPU))
		}
		if e.Machine != nil {
			w.machine(e.Machine)
		}
	case e.Kind == End:
		w.int("lines", w.lines+1)
		if e.Partial {
			w.line = append(w.line, `,"partial":true`...)
		}
	case e.Kind == Choose:
		w.text("detail", e.Detail)
	default:
		w.int("job", int64(e.Job))
		w.details(e)
	}
	w.line = append(w.line, '}')
	return w.writeLine()
}

// details writes the fields of events of jobs.
func (w *Writer) details(e *Event) {
	if e.Facts != nil {
		w.facts(e.Facts)
	}
	if e.Phase != "" && e.Phase != Waiting {
		w.text("phase", string(e.Phase))
	}
	if e.Run > 0 {
		w.int("run", int64(e.Run))
	}
	if e.LastRun > e.Run {
		w.int("last_run", int64(e.LastRun))
	}
	if e.hasGPUs() {
		w.line = append(w.line, `,"on":"`...)
		w.line = append(e.On.AppendText(w.line), '"')
		w.time("ready_s", e.Ready, e.Ready > e.At)
		w.time("load_s", e.Load, e.Load > 0)
		w.time("done_s", e.Done, e.Done > 0)
		if e.Speed != 1 {
			w.line = append(w.line, `,"speed":`...)
			w.line = strconv.AppendFloat(w.line, e.Speed, 'g', -1, 64)
		}
	} else {
		w.time("done_s", e.Done, e.Done > 0)
	}
	if e.Reason != "" {
		w.text("reason", string(e.Reason))
	}
	switch e.Reason {
	case ForJob:
		w.int("for", int64(e.For))
	case NodeLost, NodeDrained:
		w.int("node", int64(e.Node))
	case "", Reallocation, JobFailed, Overtakes:
	}
	w.time("start_s", e.Start, e.Kind == Promise)
	if e.Detail != "" {
		w.text("detail", e.Detail)
	}
}

// facts writes what is known of a job that arrives.
func (w *Writer) facts(j *cluster.Job) {
	w.int("gpus", int64(j.GPUs))
	for _, each := range []struct {
		key  string
		text string
	}{{"name", j.Name}, {"user", j.User}, {"model", j.Model}, {"gpu_type", j.GPUType}} {
		if each.text != "" {
			w.text(each.key, each.text)
		}
	}
	for _, each := range []struct {
		key   string
		value int64
		usual int64
	}{
		{"share", int64(j.Share), cluster.WholeGPU},
		{"min_gpus", int64(j.MinGPUs), 0},
		{"max_gpus", int64(j.MaxGPUs), 0},
		{"gpu_memory_bytes", j.GPUMemoryBytes, 0},
		{"priority", int64(j.Priority), 0},
	} {
		if each.value != each.usual && (each.value != 0 || each.key != "share") {
			w.int(each.key, each.value)
		}
	}
	if j.Fixed {
		w.key("fixed")
		w.line = append(w.line, "true"...)
	}
	w.time("submit_s", j.Submit, true)
	w.time("estimate_s", j.Estimate, j.Estimate > 0)
	w.time("length_s", j.Length, j.Length > 0)
}

// machine writes a node that joins.
func (w *Writer) machine(n *cluster.Node) {
	w.int("gpus", int64(n.GPUs))
	for _, each := range []struct{ key, text string }{{"name", n.Name}, {"gpu_type", n.GPUType}, {"rack", n.Rack}} {
		if each.text != "" {
			w.text(each.key, each.text)
		}
	}
	if n.GPUMemoryBytes != 0 {
		w.int("gpu_memory_bytes", n.GPUMemoryBytes)
	}
}

// key appends a comma and a key.
func (w *Writer) key(name string) {
	w.line = append(append(append(w.line, ',', '"'), name...), '"', ':')
}

// int appends a key with a number.
func (w *Writer) int(name string, value int64) {
	w.key(name)
	w.line = strconv.AppendInt(w.line, value, 10)
}

// time appends a key with a time, if there is one.
func (w *Writer) time(name string, value time.Duration, ok bool) {
	if ok {
		w.key(name)
		w.line = words.AppendSeconds(w.line, value)
	}
}

// text appends a key with a text.
func (w *Writer) text(name, value string) {
	w.key(name)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(value) // cannot fail
			w.line = append(w.line, quoted...)
			return
		}
	}
	w.line = append(append(append(w.line, '"'), value...), '"')
}

// Finish writes the last line and flushes.
func (w *Writer) Finish(at time.Duration, partial bool) error {
	if err := w.Write(&Event{At: at, Kind: End, Partial: partial}); err != nil {
		return err
	}
	return w.Flush()
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.err = w.to.Flush()
	}
	return w.err
}
