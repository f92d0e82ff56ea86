package arrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/cli/migrate/wire"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/ticks"
)

// arrival is a program that comes to this machine.
type arrival struct {
	conn   *wire.Conn
	client *api.Client
	hello  wire.Message
	gpus   []uint32
	// decision is whether the program runs here.
	decision *decision
	// ready is set once the source may have heard that the program is restored: it may ask for the
	// end.
	ready bool
	dir   string   // of the image, and of what is received before it
	held  *os.File // dir, locked: this process uses it
	image *os.File // the directory of the image, in dir
}

// Names in the directory of an image that arrives.
const (
	prefix    = "phos-take-over-"
	imageName = "image"
	headName  = "head" // the image without memory
)

// serve talks to the source. What fails is told to it, too.
func serve(ctx context.Context, conn *wire.Conn, below string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for range ticks.Every(ctx, wire.AliveEvery) {
			_ = conn.Send(wire.Message{Kind: wire.Alive}) // who hears nothing gives up
		}
	}()
	err := greet(ctx, conn, below)
	if err != nil {
		// If the source has gone, nobody needs to be told.
		_ = conn.Send(wire.Message{Kind: wire.Failed, Text: humanize.Printable(api.Text(err))})
	}
	return err
}

// greet receives what is wanted, and does that.
func greet(ctx context.Context, conn *wire.Conn, below string) (err error) {
	hello, err := conn.Receive()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, wire.ErrForeign):
		return errors.New("standard input has no program: pos_cli --migrate --to HOST starts this command there")
	case err != nil:
		return err
	case hello.Kind != wire.Hello || hello.Version != wire.Version:
		return fmt.Errorf("this pos_cli speaks version %d of migrations, the other one %d: install the same phos on both machines",
			wire.Version, hello.Version)
	case hello.Ask != "":
		return answer(ctx, conn, hello.Ask)
	}
	a := &arrival{conn: conn, hello: hello}
	if a.client, err = api.Dial(api.Socket()); err != nil {
		return err
	}
	defer a.client.Close()
	if a.gpus, err = launch.Ordinals(ctx, a.client, hello.GPUs); err != nil {
		return err
	}
	if err := a.makeDirectory(below); err != nil {
		return err
	}
	if a.decision, err = newDecision(); err == nil {
		err = a.take(ctx)
		err = errors.Join(err, a.leave(err))
	}
	_, _ = a.image.Close(), a.held.Close() // they were only read
	return errors.Join(err, os.RemoveAll(a.dir))
}

// answer tells a source how a move has ended, and forgets that once the source knows.
func answer(ctx context.Context, conn *wire.Conn, name string) error {
	asked, err := decisionNamed(name)
	if err != nil {
		return err
	}
	told, err := asked.answer(ctx)
	if err == nil {
		err = conn.Send(told)
	}
	if err != nil {
		return err
	}
	if said, err := conn.Receive(); err == nil && said.Kind == wire.Bye {
		return asked.forget()
	}
	return nil // it may not have heard, and asks again
}

// leave leaves the decision behind if the source may ask for it.
func (a *arrival) leave(failure error) error {
	switch {
	case failure == nil || !a.ready:
		return a.decision.forget()
	case a.decision.is(takenName) || a.decision.is(refusedName):
		return nil
	}
	return a.decision.refuse()
}

// makeDirectory makes the directory of the image, and removes those of processes that were killed.
func (a *arrival) makeDirectory(below string) error {
	sweep(below)
	made, err := os.MkdirTemp(below, prefix)
	if err != nil {
		return fmt.Errorf("directory for the image: %w; --remote-dir names another one", err)
	}
	if a.dir, err = filepath.Abs(made); err != nil {
		return err
	}
	if a.held, err = hold(a.dir); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(a.dir, imageName), 0o700); err != nil {
		return err
	}
	a.image, err = os.Open(filepath.Join(a.dir, imageName))
	return err
}

// room returns how much fits into the directory of the image.
func (a *arrival) room() (uint64, error) {
	var disk unix.Statfs_t
	err := unix.Statfs(a.dir, &disk)
	return disk.Bavail * uint64(disk.Bsize), err
}

// take receives the program and lets it run.
func (a *arrival) take(ctx context.Context) error {
	room, err := a.room()
	if err != nil {
		return err
	}
	welcome := wire.Message{Kind: wire.Welcome, Version: wire.Version, Move: a.decision.name(), RoomBytes: room}
	if err := a.conn.Send(welcome); err != nil {
		return err
	}
	for {
		next, err := a.conn.Receive()
		if err != nil {
			return fmt.Errorf("the source has given up: %w", err)
		}
		answer := wire.Message{Kind: wire.Taken}
		switch next.Kind {
		case wire.Head:
			answer.Kind = wire.Checked
			err = a.check(ctx)
		case wire.Round:
			if err = a.receive(ctx, a.image, store.ReadStream); err == nil {
				answer.RoomBytes, err = a.room()
			}
		case wire.Last:
			if err := a.receive(ctx, a.image, store.ReadStream); err != nil {
				return err
			}
			return a.restore(ctx)
		default:
			err = fmt.Errorf("%w: %s", wire.ErrForeign, next.Kind)
		}
		if err == nil {
			err = a.conn.Send(answer)
		}
		if err != nil {
			return err
		}
	}
}

// reader reads a stream into an image.
type reader func(ctx context.Context, from io.Reader, into *store.Dir) (generation uint64, err error)

// receive puts a stream into an image.
func (a *arrival) receive(ctx context.Context, into *os.File, read reader) error {
	dir, err := store.Init(into)
	if err != nil {
		return err
	}
	defer dir.Close()
	_, err = read(ctx, a.conn.Stream(), dir)
	return err
}

// check receives the image without its memory, and returns an error if it cannot be restored here.
func (a *arrival) check(ctx context.Context) error {
	path := filepath.Join(a.dir, headName)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	head, err := os.Open(path)
	if err != nil {
		return err
	}
	defer head.Close()
	if err := a.receive(ctx, head, store.ReadHead); err != nil {
		return err
	}
	token, err := a.send(ctx, head)
	if err != nil {
		return err
	}
	reply, err := a.client.Daemon.CheckImage(ctx, &api.CheckImageRequest{
		Files: token, NewPids: a.hello.NewPids, TrustSeal: os.Getuid() == 0, Gpus: a.gpus,
	})
	if err != nil {
		return api.FromStatus(err)
	}
	var reasons []string
	for _, o := range reply.GetObstacles() {
		text := o.GetSubject() + ": " + o.GetReason()
		if o.GetHarmless() {
			_ = a.conn.Send(wire.Message{Kind: wire.Notice, Text: text})
			continue
		}
		if o.GetRemedy() != "" {
			text += " (" + o.GetRemedy() + ")"
		}
		reasons = append(reasons, text)
	}
	if len(reasons) > 0 {
		return fmt.Errorf("%w: it cannot run here: %s", api.ErrInvalid, strings.Join(reasons, "; "))
	}
	return nil
}
