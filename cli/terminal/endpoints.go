package terminal

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/pty"
)

// Standard is the caller's standard input, output and error.
type Standard struct {
	In, Out, Err *os.File
}

// Endpoints connect a program to Standard by terminals, pipes and sockets. One end of each goes to
// the program; Flow copies between the other end and Standard.
type Endpoints struct {
	standard     Standard
	programFiles []*os.File
	ids          []uint32
	pairs        []pair
}

// pair is an endpoint whose other end is kept here.
type pair struct {
	ours *os.File
	pty  bool
	// input is copied to the program, and the program's output to output; nil: not copied.
	input, output *os.File
}

// NewEndpoints opens an endpoint for each one of an image that is a terminal, or that the root of
// the tree had as its standard input, output or error. phosd replaces the others. The program's
// ends belong to its user: CRIU opens pipes again with the user's rights, and the program may open
// its terminal.
func NewEndpoints(described []image.Endpoint, uid uint32, standard Standard) (_ *Endpoints, err error) {
	e := &Endpoints{standard: standard}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	main := mainTerminal(described)
	piped := slices.ContainsFunc(
		described,
		func(end image.Endpoint) bool { return end.Kind != "terminal" && end.Standard == 1 },
	)
	for _, end := range described {
		given, p, err := e.open(end, piped)
		if err != nil {
			return e, err
		}
		if given == nil {
			continue
		}
		if p.pty && end.ID != main {
			p.input = nil
		}
		if int(uid) != os.Geteuid() { // the caller is root
			err = given.Chown(int(uid), -1)
		}
		e.programFiles, e.ids, e.pairs = append(e.programFiles, given), append(e.ids, end.ID), append(e.pairs, p)
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// mainTerminal returns the id of the terminal that gets the caller's input, or 0 if the root's
// input is not a terminal.
func mainTerminal(described []image.Endpoint) (id uint32) {
	for _, end := range described {
		switch {
		case end.Kind != "terminal" && end.Standard == 0:
			return 0
		case end.Kind == "terminal" && (id == 0 || end.Standard == 0):
			id = end.ID
		}
	}
	return id
}

// open opens one endpoint, or none if phosd replaces it. A terminal's output goes to standard error
// if another endpoint has standard output.
func (e *Endpoints) open(end image.Endpoint, piped bool) (given *os.File, p pair, err error) {
	out := e.output(end.Standard)
	switch end.Kind {
	case "terminal":
		rows, columns := end.Rows, end.Columns
		if size := e.size(); size != nil {
			rows, columns = size.Row, size.Col
		}
		p.pty, p.input, p.output = true, e.standard.In, e.standard.Out
		if piped {
			p.output = e.standard.Err
		}
		given, p.ours, err = pty.Open(rows, columns)
	case "pipe-read":
		if end.Standard == 0 {
			p.input = e.standard.In
			given, p.ours, err = openPipe()
		}
	case "pipe-write":
		if out != nil {
			p.output = out
			p.ours, given, err = openPipe()
		}
	case "stream-socket":
		if end.Standard < 0 || end.Standard > 2 {
			return nil, p, nil
		}
		if end.Standard == 0 {
			p.input, out = e.standard.In, e.standard.Out
		}
		p.output = out
		given, p.ours, err = openSockets()
	}
	return given, p, err
}

// output returns the caller's standard output (1) or error (2), else nil.
func (e *Endpoints) output(standard int) *os.File {
	switch standard {
	case 1:
		return e.standard.Out
	case 2:
		return e.standard.Err
	}
	return nil
}

// size returns the size of the caller's terminal, or nil if it has none.
func (e *Endpoints) size() *unix.Winsize {
	return Size(e.standard.In, e.standard.Out, e.standard.Err)
}

// Size returns the size of the first file that is a terminal, or nil if none is.
func Size(files ...*os.File) *unix.Winsize {
	for _, file := range files {
		if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil {
			return size
		}
	}
	return nil
}

// ProgramFiles returns the program's ends, and the id of the image's endpoint that each replaces.
func (e *Endpoints) ProgramFiles() (files []*os.File, ids []uint32) { return e.programFiles, e.ids }

// CloseProgramFiles closes the program's ends here, so that the other ends see EOF when the program
// ends.
func (e *Endpoints) CloseProgramFiles() error {
	var failures []error
	for _, file := range e.programFiles {
		failures = append(failures, file.Close())
	}
	e.programFiles = nil
	return errors.Join(failures...)
}

// Close closes everything except Standard.
func (e *Endpoints) Close() error {
	failures := []error{e.CloseProgramFiles()}
	for _, p := range e.pairs {
		failures = append(failures, p.ours.Close())
	}
	e.pairs = nil
	return errors.Join(failures...)
}
