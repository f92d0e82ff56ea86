package workload

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// guessPhilly reports whether the file is JSON, which no other format is.
func guessPhilly(h head) bool {
	return strings.HasPrefix(h.text, "[") || strings.HasPrefix(h.text, "{")
}

// phillyJob is an entry of cluster_job_log. Its times are local without a zone and are taken for
// UTC; an attempt across the end of summer time is an hour too short.
type phillyJob struct {
	VC        string `json:"vc"`
	ID        string `json:"jobid"`
	Submitted string `json:"submitted_time"`
	User      string `json:"user"`
	Attempts  []phillyAttempt
}

type phillyAttempt struct {
	Start  string `json:"start_time"`
	End    string `json:"end_time"`
	Detail []struct {
		GPUs []string `json:"gpus"`
	}
}

// readPhilly reads cluster_job_log: a job is as long as its attempts together, and has the GPUs of
// the last of them.
func readPhilly(s *source) (Trace, error) {
	in := &elements{lines: &s.lines, count: newlines{in: s.in}}
	in.dec = json.NewDecoder(&in.count)
	if err := in.begin(); err != nil {
		return Trace{}, err
	}
	trace := newTrace()
	seen := map[string]int{}
	for {
		var entry phillyJob
		err := in.next(&entry)
		if errors.Is(err, io.EOF) {
			return trace, nil
		}
		if err != nil {
			return Trace{}, err
		}
		if first, twice := seen[entry.ID]; twice {
			return Trace{}, in.badValue("jobid", entry.ID, fmt.Sprintf("a name of its own; line %d has the same", first))
		}
		seen[entry.ID] = in.line
		job, why, err := entry.job(in)
		switch {
		case err != nil:
			return Trace{}, err
		case why != "":
			s.left[why]++
		default:
			trace.Jobs.Add(&job)
		}
	}
}

// job returns the entry as a job, or why it is left out.
func (p *phillyJob) job(in *elements) (j cluster.Job, why string, err error) {
	if p.ID == "" {
		return j, "", in.badValue("jobid", "", "a name")
	}
	j = cluster.Job{Name: p.ID, User: owner(p.VC, p.User), Share: cluster.WholeGPU}
	if unknown(p.Submitted) {
		return j, "jobs left out: they have no time of submission", nil
	}
	if j.Submit, err = in.clock("submitted_time", p.Submitted); err != nil {
		return j, "", err
	}
	for n, a := range p.Attempts {
		length, gpus, err := a.length(in, n)
		if err != nil {
			return j, "", err
		}
		if length > 0 && gpus > 0 {
			j.Length += length
			j.GPUs = gpus
		}
	}
	if j.GPUs == 0 {
		return j, "jobs left out: no attempt of theirs has GPUs, a start and a later end", nil
	}
	j.Estimate = j.Length
	return j, "", nil
}

// length returns how long an attempt ran on how many GPUs; 0 if it has no start or no end.
func (a *phillyAttempt) length(in *elements, n int) (length time.Duration, gpus int, err error) {
	if unknown(a.Start) || unknown(a.End) {
		return 0, 0, nil
	}
	from, err := in.clock(fmt.Sprintf("attempts[%d].start_time", n), a.Start)
	if err != nil {
		return 0, 0, err
	}
	to, err := in.clock(fmt.Sprintf("attempts[%d].end_time", n), a.End)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range a.Detail {
		gpus += len(d.GPUs)
	}
	return to - from, gpus, nil
}

// unknown reports whether a time is missing.
func unknown(text string) bool { return text == "" || strings.Contains(text, "None") }

// owner returns a user as a team of a virtual cluster.
func owner(organisation, user string) string {
	switch {
	case organisation == "":
		return user
	case user == "":
		return organisation
	}
	return organisation + "/" + user
}

// elements reads the entries of a JSON list one by one, and tracks the line of each.
type elements struct {
	*lines
	dec   *json.Decoder
	count newlines
	entry json.RawMessage
	n     int // of the entry, from 0
}

// begin reads up to the first entry.
func (e *elements) begin() error {
	token, err := e.dec.Token()
	if errors.Is(err, io.EOF) {
		return &Error{File: e.file, Want: "a JSON list of jobs; the file is empty"}
	}
	if err == nil && token != json.Delim('[') {
		e.line = 1
		return e.badValue("", fmt.Sprint(token), "a JSON list of jobs, [{…}, …]")
	}
	return e.syntax(err)
}

// next reads the next entry; io.EOF at the list's end.
func (e *elements) next(to any) error {
	if !e.dec.More() {
		if _, err := e.dec.Token(); err != nil {
			return e.syntax(err)
		}
		return io.EOF
	}
	e.count.end = e.dec.InputOffset() + maxEntry
	if err := e.dec.Decode(&e.entry); err != nil {
		return e.syntax(err)
	}
	e.line = e.count.line(e.dec.InputOffset() - int64(len(e.entry)))
	err := json.Unmarshal(e.entry, to)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		e.line += bytes.Count(e.entry[:min(int(kind.Offset), len(e.entry))], []byte("\n"))
		key := strings.TrimSuffix(fmt.Sprintf("[%d].%s", e.n, kind.Field), ".")
		return e.badValue(key, kind.Value, cmp.Or(jsonKinds[kind.Type.Kind()], kind.Type.String()))
	}
	e.n++
	return err
}

// jsonKinds are JSON's names for the expected types.
var jsonKinds = map[reflect.Kind]string{
	reflect.Struct: "an object, {…}",
	reflect.Slice:  "a list, […]",
	reflect.String: "a string",
}

// syntax returns an error with the line where the JSON is invalid.
func (e *elements) syntax(err error) error {
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errLongEntry):
		e.line = e.count.line(e.dec.InputOffset())
		return e.missing("", fmt.Sprintf("entries of at most %d MiB", maxEntry>>20))
	case errors.As(err, &syntax):
		e.line = e.count.line(syntax.Offset)
		return e.missing("", "JSON; "+syntax.Error())
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.line = e.count.line(e.count.read)
		return e.missing("", "the rest of the list; the file ends within it")
	}
	return fmt.Errorf("read %s: %w", e.file, err)
}

// clock parses a time of the current entry.
func (e *elements) clock(key, text string) (time.Duration, error) {
	at, ok := clock([]byte(text))
	if !ok {
		return 0, e.badValue(key, text, wantClock)
	}
	return at, nil
}

// badValue returns an error about a value of the current entry, with the value's line.
func (e *elements) badValue(key, value, want string) error {
	at := *e.lines
	if quoted, _ := json.Marshal(value); len(value) > 0 {
		before, _, found := bytes.Cut(e.entry, quoted)
		if found {
			at.line += bytes.Count(before, []byte("\n"))
		}
	}
	return at.badValue(key, value, want)
}

// maxEntry bounds an entry of a JSON list, which is in memory as a whole.
const maxEntry = 64 << 20

// errLongEntry ends the reading of an entry that is longer than maxEntry.
var errLongEntry = errors.New("entry too long")

// newlines records where the lines of a stream end, until they are asked for. It reads only so far
// that an entry may end.
type newlines struct {
	in   io.Reader
	read int64
	end  int64   // the greatest offset at which the current entry may end; 0 if none is read
	ends []int64 // offsets behind which a line begins
	past int     // how many were dropped from ends
}

func (n *newlines) Read(to []byte) (int, error) {
	if n.end > 0 && n.read > n.end {
		return 0, errLongEntry
	}
	got, err := n.in.Read(to)
	for i, c := range to[:got] {
		if c == '\n' {
			n.ends = append(n.ends, n.read+int64(i))
		}
	}
	n.read += int64(got)
	return got, err
}

// line returns the line number of an offset, which must not be less than in the previous call.
func (n *newlines) line(offset int64) int {
	passed := 0
	for passed < len(n.ends) && n.ends[passed] < offset {
		passed++
	}
	n.past += passed
	n.ends = append(n.ends[:0], n.ends[passed:]...)
	return n.past + 1
}
