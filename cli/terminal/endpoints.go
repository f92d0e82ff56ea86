package terminal

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// Standard are the files that the caller has as its standard input, output and error.
type Standard struct {
	In, Out, Err *os.File
}

// Endpoints stand between a program and Standard: one end of each goes to the program, the other is
// copied from and to.
type Endpoints struct {
	standard     Standard
	programFiles []*os.File
	ids          []uint32
	pairs        []pair
}

// pair is an end that stays here.
type pair struct {
	ours *os.File
	pty  bool
	// input is what flows to the program, output where its own bytes go; nil: nothing, nowhere.
	input, output *os.File
}

// NewEndpoints makes an end for each of an image's outside ends that is a terminal, or that the root of
// the tree had as its standard input, output or error. The others are phosd's to stand in for.
func NewEndpoints(described []image.Endpoint, standard Standard) (_ *Endpoints, err error) {
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
		e.programFiles, e.ids, e.pairs = append(e.programFiles, given), append(e.ids, end.ID), append(e.pairs, p)
	}
	return e, nil
}

// mainTerminal is the terminal that gets what is typed: none when the root's input comes from
// elsewhere.
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

// open makes the two ends for one end; none for one that is not the caller's business. A terminal
// shows on standard error when standard output is another end's.
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
		given, p.ours, err = openPTY(rows, columns)
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

func (e *Endpoints) output(standard int) *os.File {
	switch standard {
	case 1:
		return e.standard.Out
	case 2:
		return e.standard.Err
	}
	return nil
}

// size is that of the caller's terminal; nil: it has none.
func (e *Endpoints) size() *unix.Winsize {
	for _, file := range []*os.File{e.standard.In, e.standard.Out, e.standard.Err} {
		if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil {
			return size
		}
	}
	return nil
}

// ProgramFiles are the ends for the program, and which of the image's ends each stands for.
func (e *Endpoints) ProgramFiles() (files []*os.File, ids []uint32) { return e.programFiles, e.ids }

// CloseProgramFiles closes the program's ends here, so that their other ends learn of its end.
func (e *Endpoints) CloseProgramFiles() error {
	var failures []error
	for _, file := range e.programFiles {
		failures = append(failures, file.Close())
	}
	e.programFiles = nil
	return errors.Join(failures...)
}

// Close closes everything but Standard.
func (e *Endpoints) Close() error {
	failures := []error{e.CloseProgramFiles()}
	for _, p := range e.pairs {
		failures = append(failures, p.ours.Close())
	}
	e.pairs = nil
	return errors.Join(failures...)
}
