package eventlog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Bounds of what a Reader reads.
const (
	maxHeader = 64 << 20 // bytes; a line for each of many named nodes
	maxLine   = 1 << 20
	maxNodes  = 1 << 22
)

// Error is an invalid line.
type Error struct {
	File string
	Line int64 // from 1
	Text string
}

// Error returns the place and what is wrong.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// ErrVersion is in the chain of the error about a log of another major version.
var ErrVersion = errors.New("log of events of another version")

// Reader reads a log line by line.
type Reader struct {
	Header Header

	file  string
	in    *bufio.Reader
	buf   []byte
	line  int64
	later bool // the log's minor version is later than ours
	ended bool
	last  time.Duration
}

// NewReader reads the header. The log may be compressed by gzip. Errors call it by its name.
func NewReader(from io.Reader, name string) (*Reader, error) {
	r := &Reader{file: name, in: bufio.NewReaderSize(from, 64<<10)}
	if magic, _ := r.in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(r.in)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", name, err)
		}
		r.in = bufio.NewReaderSize(unpacked, 64<<10)
	}
	text, err := r.next(maxHeader)
	if errors.Is(err, io.EOF) {
		return nil, r.wrong("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	return r, r.readHeader(text)
}

// wrong returns an error about the line that was read last.
func (r *Reader) wrong(format string, values ...any) error {
	return &Error{r.file, max(1, r.line), fmt.Sprintf(format, values...)}
}

// next returns the next line, which is valid until the following call.
func (r *Reader) next(most int) ([]byte, error) {
	r.buf = r.buf[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.buf = append(r.buf, part...)
		switch {
		case len(r.buf) > most:
			r.line++
			return nil, r.wrong("longer than %d bytes", most)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.buf) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			r.line++
			return nil, r.wrong("cut off in the middle of the line")
		case err != nil:
			return nil, fmt.Errorf("read %s, behind line %d: %w", r.file, r.line, err)
		}
		r.line++
		return r.buf, nil
	}
}

// readHeader checks the first line.
func (r *Reader) readHeader(text []byte) error {
	var version struct{ Format, Version string }
	if err := json.Unmarshal(text, &version); err != nil || version.Format != Name {
		return r.wrong("not a log of events: the first line is no JSON object with \"format\": %q", Name)
	}
	major, minor, _ := strings.Cut(version.Version, ".")
	m, err := strconv.ParseUint(major, 10, 16)
	n, errMinor := strconv.ParseUint(minor, 10, 16)
	switch {
	case err != nil || errMinor != nil:
		return r.wrong("version: got %q, want MAJOR.MINOR", words.Clip(version.Version))
	case m != Major:
		return fmt.Errorf("%w: %s is of version %s, and this program reads version %d.x", ErrVersion, r.file,
			words.Clip(version.Version), Major)
	}
	r.Header.Major, r.Header.Minor, r.later = int(m), int(n), n > Minor
	var line struct {
		headerLine
		Scheduler json.RawMessage `json:"scheduler"`
	}
	if err := r.decode(text, &line); err != nil {
		return err
	}
	r.Header.Source, r.Header.Began, r.Header.Scheduler = line.Source, line.Began, line.Scheduler
	for _, group := range line.Nodes {
		count := max(1, group.Count)
		if int(group.Node) != len(r.Header.Nodes) || group.Count < 0 || group.GPUs < 0 ||
			count > maxNodes-len(r.Header.Nodes) {
			return r.wrong("nodes: node %d: want nodes by number from 0, each once", group.Node)
		}
		for i := range count {
			node := group.node()
			node.ID += cluster.NodeID(i)
			r.Header.Nodes = append(r.Header.Nodes, node)
		}
	}
	return nil
}

// node returns the first of the nodes.
func (n nodeLine) node() cluster.Node {
	return cluster.Node{
		ID: n.Node, Name: n.Name, GPUs: n.GPUs, GPUType: n.GPUType, GPUMemoryBytes: n.GPUMemoryBytes, Rack: n.Rack,
	}
}

// decode decodes a line. Unknown keys are allowed in logs of later versions.
func (r *Reader) decode(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if !r.later {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(to); err != nil {
		return r.wrong("%s", words.ClipTo(err.Error(), 120))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return r.wrong("more than one JSON value")
	}
	return nil
}

// eventLine is an event as JSON.
type eventLine struct {
	Time   *seconds `json:"time_s"`
	Event  Kind     `json:"event"`
	Job    *int64   `json:"job"`
	Run    *int     `json:"run"`
	On     *string  `json:"on"`
	Ready  *seconds `json:"ready_s"`
	Load   seconds  `json:"load_s"`
	Done   seconds  `json:"done_s"`
	Speed  *float64 `json:"speed"`
	Reason Reason   `json:"reason"`
	For    *int64   `json:"for"`
	Node   *int32   `json:"node"`
	Start  *seconds `json:"start_s"`
	Detail string   `json:"detail"`
	GPU    *int32   `json:"gpu"`

	Phase   Phase `json:"phase"`
	LastRun int   `json:"last_run"`

	GPUs           *int    `json:"gpus"`
	Name           string  `json:"name"`
	User           string  `json:"user"`
	Model          string  `json:"model"`
	GPUType        string  `json:"gpu_type"`
	Rack           string  `json:"rack"`
	Share          *int    `json:"share"`
	MinGPUs        int     `json:"min_gpus"`
	MaxGPUs        int     `json:"max_gpus"`
	GPUMemoryBytes int64   `json:"gpu_memory_bytes"`
	Priority       int     `json:"priority"`
	Fixed          bool    `json:"fixed"`
	Submit         seconds `json:"submit_s"`
	Estimate       seconds `json:"estimate_s"`
	Length         seconds `json:"length_s"`

	Lines   int64 `json:"lines"`
	Partial bool  `json:"partial"`
}

// Next returns the next event; io.EOF behind the last line. Kinds that later minor versions added
// are skipped.
func (r *Reader) Next() (Event, error) {
	for {
		text, err := r.next(maxLine)
		if err != nil {
			return Event{}, err
		}
		if r.ended {
			return Event{}, r.wrong("a line behind the end")
		}
		var line eventLine
		if err := r.decode(text, &line); err != nil {
			return Event{}, err
		}
		if line.Time == nil {
			return Event{}, r.wrong("no time_s")
		}
		if at := time.Duration(*line.Time); at < r.last {
			return Event{},
				r.wrong("time_s: got %s, want %s or later", words.AppendSeconds(nil, at), words.AppendSeconds(nil, r.last))
		}
		r.last = time.Duration(*line.Time)
		if r.later && !line.Event.known() {
			continue
		}
		return r.event(&line)
	}
}

// Line returns the number of the line that was read last.
func (r *Reader) Line() int64 { return r.line }

// Ended reports whether the last line was read: the log is complete.
func (r *Reader) Ended() bool { return r.ended }

// event checks that an event has what its kind needs.
func (r *Reader) event(line *eventLine) (e Event, err error) {
	e = Event{
		At: r.last, Kind: line.Event, Reason: line.Reason, Load: time.Duration(line.Load), Done: time.Duration(line.Done),
		Ready: r.last, Speed: 1, Detail: line.Detail, Lines: line.Lines, Partial: line.Partial,
		Phase: line.Phase, LastRun: line.LastRun,
	}
	if e.Kind == Adopt {
		e.Phase = cmp.Or(e.Phase, Waiting)
	}
	switch {
	case !e.Kind.known():
		return e, r.wrong("event: got %q, which version %d.%d does not have", words.Clip(string(e.Kind)), Major, Minor)
	case e.Kind == End:
		r.ended = true
		if e.Lines != r.line && !r.later {
			return e, r.wrong("lines: got %d, want %d: lines are missing", e.Lines, r.line)
		}
		return e, nil
	case e.Kind == Choose && line.Detail == "":
		return e, r.wrong("choose without detail")
	case e.Kind == Choose:
		return e, nil
	case e.Kind.ofNode() && line.Node == nil, !e.Kind.ofNode() && line.Job == nil:
		return e, r.wrong("%s without the number of its job or node", e.Kind)
	case line.Reason == ForJob && line.For == nil, (line.Reason == NodeLost || line.Reason == NodeDrained) &&
		line.Node == nil:
		return e, r.wrong("%s for %s without its number", e.Kind, line.Reason)
	case e.Kind == Promise && line.Start == nil:
		return e, r.wrong("promise without start_s")
	case e.hasGPUs() && (line.On == nil || line.Run == nil):
		return e, r.wrong("%s without run and on", e.Kind)
	case e.Kind.describes() && line.GPUs == nil:
		return e, r.wrong("%s without gpus", e.Kind)
	case e.Kind.ofGPU() && line.GPU == nil:
		return e, r.wrong("%s without gpu", e.Kind)
	case e.Kind == Adopt && e.Phase != Held && e.Phase != Waiting && e.Phase != Running:
		return e, r.wrong("phase: got %q, want held, waiting or running", words.Clip(string(e.Phase)))
	}
	r.numbers(&e, line)
	if line.On != nil {
		if e.On, err = cluster.ParsePlacement(*line.On); err != nil {
			return e, r.wrong("on: got %q: %v", words.Clip(*line.On), err)
		}
	}
	return e, nil
}

// numbers copies the fields that an event may have.
func (r *Reader) numbers(e *Event, line *eventLine) {
	if line.Job != nil {
		e.Job = cluster.JobID(*line.Job)
	}
	if line.Run != nil {
		e.Run = *line.Run
	}
	if line.For != nil {
		e.For = cluster.JobID(*line.For)
	}
	if line.Node != nil {
		e.Node = cluster.NodeID(*line.Node)
	}
	if line.GPU != nil {
		e.GPU = *line.GPU
	}
	if line.Ready != nil {
		e.Ready = time.Duration(*line.Ready)
	}
	if line.Start != nil {
		e.Start = time.Duration(*line.Start)
	}
	if line.Speed != nil {
		e.Speed = *line.Speed
	}
	switch {
	case e.Kind.describes():
		e.LastRun = max(e.LastRun, e.Run)
		e.Facts = line.job()
	case e.Kind == Up && line.GPUs != nil:
		e.Machine = &cluster.Node{
			ID: e.Node, Name: line.Name, GPUs: *line.GPUs, GPUType: line.GPUType, GPUMemoryBytes: line.GPUMemoryBytes,
			Rack: line.Rack,
		}
	}
}

// job returns the description of a job that arrives.
func (l *eventLine) job() *cluster.Job {
	j := &cluster.Job{
		ID: cluster.JobID(*l.Job), Name: l.Name, User: l.User, Model: l.Model, GPUType: l.GPUType, Priority: l.Priority,
		GPUs: *l.GPUs, Share: cluster.WholeGPU, MinGPUs: l.MinGPUs, MaxGPUs: l.MaxGPUs, GPUMemoryBytes: l.GPUMemoryBytes, Fixed: l.Fixed,
		Submit: time.Duration(l.Submit), Estimate: time.Duration(l.Estimate), Length: time.Duration(l.Length),
	}
	if l.Share != nil {
		j.Share = *l.Share
	}
	return j
}

// seconds is a time in seconds, exact to the nanosecond.
type seconds time.Duration

// UnmarshalJSON parses a decimal number without an exponent.
func (s *seconds) UnmarshalJSON(text []byte) error {
	whole, fraction, _ := strings.Cut(string(text), ".")
	value, err := strconv.ParseInt(whole, 10, 64)
	nanos, errNanos := strconv.ParseUint((fraction + "000000000")[:9], 10, 32)
	const most = int64(1<<63-1)/int64(time.Second) - 1
	if err != nil || errNanos != nil || len(fraction) > 9 || value < 0 || value > most {
		return fmt.Errorf("got %s, want seconds from 0 to %d, with 9 decimals at most", words.Clip(string(text)), most)
	}
	*s = seconds(time.Duration(value)*time.Second + time.Duration(nanos))
	return nil
}
