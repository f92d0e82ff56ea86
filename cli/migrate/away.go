package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/cli/migrate/wire"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/internal/ticks"
)

// departure is one move of a program to another machine.
type departure struct {
	*migration
	to    place
	peer  *peer
	dir   string // at the target: by it, it can be asked how the migration has ended
	room  uint64 // what the target has for the image
	limit *contents.Limit

	has    map[image.Hash]struct{} // what the target has of the image
	paused time.Time               // when the program was about to stand still
}

// moveAway moves the program to another machine. On failure it runs where it was, or stands in an
// image that the error names.
func (m *migration) moveAway(ctx context.Context, to place) (err error) {
	if err := m.identify(); err != nil {
		return err
	}
	d := &departure{migration: m, to: to, has: map[image.Hash]struct{}{}, limit: contents.NewLimit(uint64(m.bandwidth))}
	if err := d.greet(ctx); err != nil {
		return fmt.Errorf("pid %d runs on where it was: %w", m.pid, err)
	}
	defer func() { d.peer.kill() }()
	return m.withCopy(func() (keep bool, err error) {
		defer m.files.close()
		if err := d.copyRounds(ctx); err != nil {
			return false, err
		}
		done, err := m.save(ctx, saveOrder{
			stop: true, handOff: d.handOff, paused: func() { d.paused = time.Now() },
		})
		if err != nil {
			if keep = ended(m.program); keep {
				err = m.kept(err)
			}
			return keep, err
		}
		m.result.RestBytes = done.GetWrittenBytes()
		return d.letRun(context.WithoutCancel(ctx))
	})
}

// greet connects to the target, and tells it what is wanted.
func (d *departure) greet(ctx context.Context) (err error) {
	// The connection must outlive a cancellation, to the end of which it belongs.
	if d.peer, err = d.connect(context.WithoutCancel(ctx), d.to); err != nil {
		return err
	}
	hello := wire.Message{
		Kind: wire.Hello, Version: wire.Version, GPUs: d.list, NewPids: d.newPids,
	}
	if err = d.peer.Send(hello); err == nil || errors.Is(err, io.ErrClosedPipe) {
		var welcome wire.Message
		welcome, err = d.peer.await(ctx, wire.Welcome)
		d.dir, d.room = welcome.Dir, welcome.RoomBytes
	}
	if err != nil {
		d.peer.kill()
	}
	return err
}

// send sends a generation, of which the target has some contents.
func (d *departure) send(ctx context.Context, kind wire.Kind, generation uint64) (sent uint64, err error) {
	dir, err := store.Open(d.migration.dir)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	counted := &counting{ctx: ctx, limit: d.limit}
	if kind == wire.Last {
		counted.limit = nil // the program stands still
	}
	err = d.peer.SendStream(wire.Message{Kind: kind}, func(to io.Writer) error {
		counted.to = to
		if kind == wire.Head {
			return store.WriteHead(ctx, dir, generation, counted)
		}
		return store.WriteMissing(ctx, dir, generation, d.has, counted)
	})
	d.result.SentBytes += counted.bytes
	if err != nil {
		return 0, d.why(ctx, err)
	}
	return counted.bytes, nil
}

// why says why the target takes nothing more, if it has said so.
func (d *departure) why(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, said := d.peer.await(ctx); said != nil && ctx.Err() == nil {
		return said
	}
	return fmt.Errorf("%s: %w", d.to.name, err)
}

// counting counts bytes, and holds them to a limit.
type counting struct {
	ctx   context.Context
	limit *contents.Limit
	to    io.Writer
	bytes uint64
}

// Write implements io.Writer.
func (c *counting) Write(data []byte) (int, error) {
	if err := c.limit.Wait(c.ctx, len(data)); err != nil {
		return 0, err
	}
	n, err := c.to.Write(data)
	c.bytes += uint64(n)
	return n, err
}

// handOff sends the rest, and returns when the program is restored at the target, where it waits.
func (d *departure) handOff(ctx context.Context) error {
	if _, err := d.send(ctx, wire.Last, 0); err != nil {
		return err
	}
	_, err := d.peer.await(ctx, wire.Ready)
	return err
}

// letRun lets the program run at the target: it has ended here. If it never runs there, it comes
// back here. keep is set if the copy is all that is left of it, or might be.
func (d *departure) letRun(ctx context.Context) (keep bool, err error) {
	answer, err := wire.Message{}, d.peer.Send(wire.Message{Kind: wire.Go})
	if err == nil {
		answer, err = d.peer.await(ctx, wire.Running)
	}
	if err != nil {
		d.notice(fmt.Sprintf("%v; asking %s how it has ended", err, d.to.name))
		if answer, err = d.ask(ctx, err); err != nil {
			return true, fmt.Errorf("pid %d has ended here, and it is not known whether it runs on %s: %s; its image is in %s: "+
				"if it does not run there, pos_cli --restore --dir %s", d.pid, d.to.name, err.Error(), d.migration.dir.Name(),
				d.migration.dir.Name())
		}
	}
	if answer.Kind == wire.Absent {
		d.notice("it does not run on " + d.to.name + ", it goes on here")
		if err := d.restore(ctx, nil); err != nil {
			return true, d.kept(err)
		}
		return false, fmt.Errorf("pid %d runs on where it was: %s did not let it run", d.pid, d.to.name)
	}
	d.result.PID = answer.PID
	d.result.StoodStillMicroseconds = uint64(time.Since(d.paused).Microseconds())
	d.awaitLoaded(ctx)
	return false, nil
}

// awaitLoaded waits until all memory is loaded at the target, and tells it that the move is over.
func (d *departure) awaitLoaded(ctx context.Context) {
	if _, err := d.peer.await(ctx, wire.Loaded); err != nil {
		d.notice(fmt.Sprintf("it runs on %s; whether all its memory is loaded is not known: %v", d.to.name, err))
		return
	}
	_ = d.peer.Send(wire.Message{Kind: wire.Bye}) // it ends without it, too
	d.peer.close()
}

// askTime is for how long the target is asked, askAgain the time between two tries.
const (
	askTime  = 2 * time.Minute
	askAgain = time.Second
)

// ask asks the target, by another connection, how the migration has ended.
func (d *departure) ask(ctx context.Context, before error) (answer wire.Message, err error) {
	d.peer.kill()
	limited, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for range ticks.Every(limited, askAgain) {
		if d.peer, err = d.connect(ctx, d.to); err != nil {
			continue
		}
		_ = d.peer.Send(wire.Message{Kind: wire.Hello, Version: wire.Version, Ask: d.dir}) // await says why
		answer, err = d.peer.await(ctx, wire.Running, wire.Absent)
		if err == nil || answer.Kind == wire.Failed {
			return answer, err
		}
		d.peer.kill()
	}
	return answer, errors.Join(before, err)
}

// stepThere shows the target's progress.
func (m *migration) stepThere(now wire.Message) {
	if m.bar != nil {
		m.bar.Step(terminal.PhaseText(now.Phase)+" there", now.DoneBytes, now.TotalBytes)
	}
}
