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
	to     place
	peer   *peer
	move   string // its name: by it, the target can be asked how it has ended
	room   uint64 // what the target has for the image
	newest uint64 // the generation of the last round
	limit  *contents.Limit

	has    map[image.Hash]struct{} // what the target has of the image
	held   time.Duration           // by the limit, while rounds were sent
	paused time.Time               // when the program was about to stand still
	asked  bool                    // the connection is one that has asked
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
		last := &saveOrder{stop: true, handOff: d.handOff, paused: func() { d.paused = time.Now() }}
		done, err := m.save(ctx, last)
		switch {
		case err != nil && last.verdict:
			return d.afterVerdict(context.WithoutCancel(ctx), err)
		case err != nil:
			return m.afterFailure(d.newest, err)
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
	_ = d.peer.Send(hello) // await says why it failed
	welcome, err := d.peer.await(ctx, wire.Welcome)
	d.move, d.room = welcome.Move, welcome.RoomBytes
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
	counted := &counting{ctx: ctx, limit: d.limit, stalled: time.AfterFunc(wire.Silence, d.peer.cut)}
	defer counted.stalled.Stop()
	defer context.AfterFunc(ctx, d.peer.cut)() // a write may wait for ever
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
	d.held += counted.held
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
	ctx     context.Context
	limit   *contents.Limit
	stalled *time.Timer // ends the connection if no byte is taken for long
	to      io.Writer
	bytes   uint64
	held    time.Duration // by the limit
}

// Write implements io.Writer.
func (c *counting) Write(data []byte) (int, error) {
	begun := time.Now()
	if err := c.limit.Wait(c.ctx, len(data)); err != nil {
		return 0, err
	}
	c.held += time.Since(begun)
	n, err := c.to.Write(data)
	c.stalled.Reset(wire.Silence)
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

// settleTime is how long a program may take to end that phosd was told to end.
const settleTime = 20 * time.Second

// afterVerdict goes on after phosd was told that the program may end, and has failed: whether it
// has ended shows only in its processes. Its image is complete, and so is what the target has.
func (d *departure) afterVerdict(ctx context.Context, failure error) (keep bool, err error) {
	settled, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for range ticks.Every(settled, lookTime) {
		if ended(d.program) {
			d.notice(failure.Error())
			return d.letRun(ctx)
		}
	}
	return true, fmt.Errorf("%s; it was about to end here, and has not; it will not run on %s. Its image is in %s: remove that if "+
		"pid %d goes on here, or pos_cli --restore --dir %s if it ends", failure.Error(), d.to.name, d.dir(), d.pid, d.dir())
}

// dir returns the name of the copy's directory.
func (d *departure) dir() string { return d.migration.dir.Name() }

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
				"look there with pos_cli --status; if it does not run there, pos_cli --restore --dir %s, else remove it",
				d.pid, d.to.name, err.Error(), d.dir(), d.dir())
		}
		defer d.sayBye()
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
	return d.awaitLoaded(ctx)
}

// awaitLoaded waits until all memory is loaded at the target, and tells it that the move is over.
// keep is set if it says that memory is lost.
func (d *departure) awaitLoaded(ctx context.Context) (keep bool, err error) {
	if d.asked {
		d.notice(fmt.Sprintf("it runs on %s; whether all its memory is loaded is not known", d.to.name))
		return false, nil
	}
	said, err := d.peer.await(ctx, wire.Loaded)
	switch {
	case err == nil:
		d.sayBye()
	case said.Kind == wire.Failed:
		return true, fmt.Errorf("it runs as pid %d, but not all of its memory could be loaded: %s; its image is in %s: "+
			"end it there, and restore it here with pos_cli --restore --dir %s", d.result.PID, err.Error(), d.dir(), d.dir())
	default:
		d.notice(fmt.Sprintf("it runs on %s; whether all its memory is loaded is not known: %v", d.to.name, err))
	}
	return false, nil
}

// sayBye tells the target that its answer has come. Without it, the target keeps that for a while.
func (d *departure) sayBye() {
	_ = d.peer.Send(wire.Message{Kind: wire.Bye})
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
	d.asked = true
	for range ticks.Every(limited, askAgain) {
		next, failed := d.connect(ctx, d.to)
		if err = failed; err != nil {
			continue
		}
		d.peer = next
		_ = d.peer.Send(wire.Message{Kind: wire.Hello, Version: wire.Version, Ask: d.move}) // await says why
		answer, err = d.peer.await(limited, wire.Running, wire.Absent, wire.Unknown)
		switch {
		case answer.Kind == wire.Unknown:
			err = fmt.Errorf("%s knows nothing of this move: does its name mean several machines?", d.to.name)
		case err == nil || answer.Kind == wire.Failed:
			return answer, err
		}
		d.peer.kill()
	}
	return answer, errors.Join(before, err)
}

// stepThere shows the target's progress.
func (m *migration) stepThere(now wire.Message) {
	text := terminal.PhaseText(now.Phase)
	if text == now.Phase { // the other machine may say anything
		text = "restoring"
	}
	if m.bar != nil {
		m.bar.Step(text+" there", now.DoneBytes, now.TotalBytes)
	}
}
