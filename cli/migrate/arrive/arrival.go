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
	dir    string
	image  *os.File // the directory of the image, in dir
}

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
		told, err := answer(ctx, hello.Ask)
		if err != nil {
			return err
		}
		return conn.Send(told)
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
	err = a.take(ctx)
	_ = a.image.Close() // it was only read
	if _, failed := os.Stat(filepath.Join(a.dir, takenName)); failed == nil && err != nil {
		// A later question finds out how it has ended.
		return errors.Join(err, os.RemoveAll(a.image.Name()), os.RemoveAll(filepath.Join(a.dir, headName)))
	}
	return errors.Join(err, os.RemoveAll(a.dir))
}

// makeDirectory makes the directory of the migration, where nothing is decided yet.
func (a *arrival) makeDirectory(below string) error {
	made, err := os.MkdirTemp(below, prefix)
	if err != nil {
		return fmt.Errorf("directory for the image: %w", err)
	}
	if a.dir, err = filepath.Abs(made); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(a.dir, openName), nil, 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(a.dir, imageName), 0o700); err != nil {
		return err
	}
	a.image, err = os.Open(filepath.Join(a.dir, imageName))
	return err
}

// take receives the program and lets it run.
func (a *arrival) take(ctx context.Context) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(a.dir, &disk); err != nil {
		return err
	}
	room := disk.Bavail * uint64(disk.Bsize)
	if err := a.conn.Send(wire.Message{Kind: wire.Welcome, Version: wire.Version, Dir: a.dir, RoomBytes: room}); err != nil {
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
			err = a.receive(ctx, a.image, store.ReadStream)
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
