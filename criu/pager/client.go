package pager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
)

// kinds are the errors that phosd distinguishes.
var kinds = fdpass.Kinds{{Name: "malformed", Err: image.ErrMalformed}, {Name: "missing", Err: contents.ErrMissing}}

// Pager is phosd's view of a pager.
type Pager struct {
	command *exec.Cmd
	// link is the restorer's end of its connection.
	link *os.File
	// LazyBytes is how much memory comes after the processes run.
	LazyBytes uint64
}

// Start starts a pager, which completes the images for CRIU. program is the command line of phosd.
func Start(ctx context.Context, program []string, order Order, images *os.File, packs []*os.File) (*Pager, error) {
	near, far, err := fdpass.Pair()
	if err != nil {
		return nil, fmt.Errorf("start pager: %w", err)
	}
	defer near.Close()
	p := &Pager{}
	err = p.start(program, far, images, packs)
	_ = far.Close()
	if err != nil {
		return nil, fmt.Errorf("start pager: %w", err)
	}
	order.Packs = len(packs)
	defer context.AfterFunc(ctx, func() { _ = near.Deadline(time.Unix(1, 0)) })()
	var reply answer
	if err = near.Send(order); err == nil {
		_, err = near.Receive(&reply)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = kinds.Err(reply.Outcome)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pager: %w", err), p.Close())
	}
	p.LazyBytes = reply.LazyBytes
	return p, nil
}

// start starts the process.
func (p *Pager) start(program []string, far, images *os.File, packs []*os.File) error {
	ours, its, err := fdpass.Link()
	if err != nil {
		return err
	}
	defer its.Close()
	p.command = runner.RoleCommand(program, Role, append([]*os.File{far, images, its}, packs...)...)
	if err := p.command.Start(); err != nil {
		return errors.Join(err, ours.Close())
	}
	p.link = ours
	return nil
}

// inherited returns the descriptor of a file in the pager.
func inherited(file int) int { return orderFD + 1 + file }

// PID returns the pid of the pager.
func (p *Pager) PID() int { return p.command.Process.Pid }

// Link returns the file for the restorer.
func (p *Pager) Link() *os.File { return p.link }

// HandOver leaves the pager to the restorer, which has restored the tree. From then on the pager
// ends when it is done, or with the tree.
func (p *Pager) HandOver() {
	_ = p.link.Close() // the restorer has it
	p.link = nil
	go func() { _ = p.command.Wait() }()
}

// Close ends a pager that was not handed over.
func (p *Pager) Close() error {
	if p.link == nil {
		return nil
	}
	err := p.link.Close()
	p.link = nil
	if killed := p.command.Process.Signal(unix.SIGKILL); killed != nil && !errors.Is(killed, os.ErrProcessDone) {
		err = errors.Join(err, killed)
	}
	_ = p.command.Wait() // it was killed
	return err
}
