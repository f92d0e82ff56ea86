package workload

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Options for what a file does not tell.
type Options struct {
	// Format is the name of a format; empty means that it is detected.
	Format string

	// Beside is the second file that some formats need, such as a table of throughputs. If empty, it
	// is looked for in the folder of the first one by its usual name.
	Beside string

	// ProcessorsPerGPU is how many processors of a Standard Workload Format log are a GPU; 0 means 1.
	ProcessorsPerGPU int

	// Fits returns the column of a job that could never run, and what is expected there, or "", so
	// that the error names the line of our CSV. Nil accepts all jobs.
	Fits func(*cluster.Job) (column, want string)
}

// format is a format that can be read.
type format struct {
	name string

	// guess reports whether a file has this format by its name and first bytes.
	guess func(h head) bool

	// read reads it. Read numbers the jobs and shifts the times, if necessary.
	read func(s *source) (Trace, error)

	// named is set if jobs have names instead of numbers, keepTimes if times are not shifted.
	named, keepTimes bool
}

// formats are tried in this order. Ours accepts every file, so that errors describe ours.
var formats = []format{
	{name: "philly", guess: guessPhilly, read: readPhilly, named: true},
	{name: "helios", guess: guessHelios, read: readHelios},
	{name: "alibaba2020", guess: guessPAI, read: readPAI, named: true},
	{name: "alibaba2023", guess: guessOpenB, read: readOpenB, named: true},
	{name: "gavel", guess: guessGavel, read: readGavel, named: true},
	{name: "pollux", guess: guessPollux, read: readPollux, named: true},
	{name: "swf", guess: guessSWF, read: readSWF},
	{name: "csv", guess: func(head) bool { return true }, read: readCSV, keepTimes: true},
}

// Formats returns the names of the formats.
func Formats() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// source is a file that is being read.
type source struct {
	lines
	path       string // "" if it is a stream
	beside     string
	usedSecond bool   // whether the second file was used
	second     string // its path
	processors int    // that are a GPU; 0 if the options do not say it
	left       omissions
	assumed    omissions // jobs that lack something, by the rule that supplied it
	fits       func(*cluster.Job) (column, want string)
}

// Read reads a trace from a file, which may be compressed by gzip.
func Read(path string, o Options) (Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return Trace{}, fmt.Errorf("open trace: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return Trace{}, &Error{File: path, Want: "a file, not a folder"}
	}
	s := o.source(filepath.Base(path))
	s.path = path
	return s.read(f, o.Format)
}

// ReadFrom reads a trace from a stream, which errors call name.
func ReadFrom(r io.Reader, name string, o Options) (Trace, error) {
	return o.source(name).read(r, o.Format)
}

// source returns a file with these options, to be opened.
func (o Options) source(file string) *source {
	return &source{
		lines: lines{file: file}, beside: o.Beside, processors: o.ProcessorsPerGPU, fits: o.Fits,
		left: omissions{}, assumed: omissions{},
	}
}

// read detects the format if necessary, reads the jobs and sorts them.
func (s *source) read(r io.Reader, name string) (trace Trace, err error) {
	if s.in, err = open(s.file, r); err != nil {
		return Trace{}, err
	}
	f, err := s.format(name)
	if err != nil {
		return Trace{}, err
	}
	if trace, err = f.read(s); err != nil {
		return Trace{}, err
	}
	if trace.Jobs.Len() == 0 {
		return Trace{}, s.noJobs()
	}
	if err := s.checkUnused(f.name); err != nil {
		return Trace{}, err
	}
	if !f.keepTimes {
		trace.fromZero()
	}
	if f.named {
		trace.number()
	}
	trace.sort()
	trace.Format = f.name
	trace.Notes = slices.Concat(s.left.notes(), s.assumed.notesOf(trace.Jobs.Len()), trace.Notes)
	return trace, nil
}

// checkUnused returns an error if an option has no effect on the format.
func (s *source) checkUnused(format string) error {
	switch {
	case s.beside != "" && !s.usedSecond:
		return &Error{
			File: s.file,
			Want: fmt.Sprintf(
				"no second file: it is read as %s, and %s would have no effect",
				format,
				filepath.Base(s.beside),
			),
		}
	case s.processors > 0 && format != "swf":
		return &Error{
			File: s.file,
			Want: fmt.Sprintf("no number of processors per GPU: it is read as %s, which counts GPUs", format),
		}
	}
	return nil
}

// noJobs returns the error about a file without a job: only a header, or only jobs that were left
// out.
func (s *source) noJobs() error {
	want := "at least one job"
	if notes := s.left.notes(); notes != nil {
		want += "; " + strings.Join(notes, "; ")
	}
	return &Error{File: s.file, Want: want}
}

// format returns a format by its name, or by the file's content.
func (s *source) format(name string) (format, error) {
	var h head
	if name == "" {
		h = newHead(s.file, s.in)
	}
	for _, f := range formats {
		if name == f.name || name == "" && f.guess(h) {
			return f, nil
		}
	}
	return format{}, fmt.Errorf("unknown trace format %s; want one of %s", words.Quoted(name), strings.Join(Formats(), ", "))
}

// openSecond opens the second file: the one in the options, or the first one that matches a
// pattern, in the folder or, as ../NAME, above it. If there is none, in is nil.
func (s *source) openSecond(patterns ...string) (in *lines, close func(), err error) {
	s.usedSecond = true
	path := s.beside
	for _, pattern := range patterns {
		if path != "" || s.path == "" {
			break
		}
		path = s.find(pattern)
	}
	if path == "" {
		return nil, func() {}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open second file of the trace: %w", err)
	}
	s.second = path
	text, err := open(filepath.Base(path), f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &lines{file: filepath.Base(path), in: text}, func() { f.Close() }, nil
}

// find returns the first file that matches a pattern, other than the trace itself; "" if none does.
// The folder's own name may contain the characters of patterns.
func (s *source) find(pattern string) string {
	dir := filepath.Join(filepath.Dir(s.path), filepath.Dir(pattern))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "" // as if there were none: the error about the missing file says more
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		match, _ := filepath.Match(filepath.Base(pattern), e.Name())
		if match && !e.IsDir() && path != filepath.Clean(s.path) {
			return path
		}
	}
	return ""
}

// head is the beginning of a file, by which its format is detected.
type head struct {
	file    string
	text    string          // the first bytes
	first   string          // the first line
	columns map[string]bool // the comma-separated words of the first line
}

// newHead reads the beginning of a file without consuming it.
func newHead(file string, in *bufio.Reader) head {
	text, _ := in.Peek(maxLine)
	h := head{file: file, text: strings.TrimLeft(string(text), " \t\r\n"), columns: map[string]bool{}}
	h.first, _, _ = strings.Cut(h.text, "\n")
	h.first = strings.TrimSuffix(h.first, "\r")
	for _, c := range strings.Split(h.first, ",") {
		h.columns[strings.Trim(c, `" `)] = true
	}
	return h
}

// has reports whether all given columns are in the header.
func (h head) has(columns ...string) bool {
	for _, c := range columns {
		if !h.columns[c] {
			return false
		}
	}
	return true
}
