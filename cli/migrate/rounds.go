package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/migrate/wire"
	"github.com/phos-gpu/phos/daemon/api"
)

const (
	// maxRounds is how often a program is copied while it runs.
	maxRounds = 8
	// shrinks is how much smaller than the one before a round must be for another one to be worth it.
	shrinks = 0.7
)

// round is one copy of the program to the target, while it runs.
type round struct {
	sent  uint64
	took  time.Duration // to send it
	pause time.Duration // for which the program stood still when it was saved
}

// foreseen estimates how long the program will stand still if its rest is as large as this round:
// to be saved once more, to be sent, and to be restored, which takes about as long as to be saved.
func (r round) foreseen(bytesPerSecond float64) time.Duration {
	return 2*r.pause + time.Duration(float64(r.sent)/bytesPerSecond*float64(time.Second))
}

// copyRounds copies the program to the target while it runs, again and again, until what is left
// fits the pause, or until further rounds do not help.
func (d *departure) copyRounds(ctx context.Context) error {
	var all, last round
	for d.result.Rounds < maxRounds {
		next, err := d.copyRound(ctx)
		if err != nil {
			return err
		}
		d.result.Rounds++
		all.sent, all.took = all.sent+next.sent, all.took+next.took
		foreseen := next.foreseen(float64(all.sent) / all.took.Seconds())
		d.result.SendingMicroseconds = uint64(all.took.Microseconds())
		d.result.ForeseenMicroseconds = uint64(foreseen.Microseconds())
		d.notice(fmt.Sprintf("round %d: %s sent in %s; the pause would be about %s", d.result.Rounds,
			humanize.Bytes(next.sent), next.took.Round(time.Millisecond), foreseen.Round(time.Millisecond)))
		// The first round is all there is, and says nothing of what changes.
		helps := float64(next.sent) < shrinks*float64(last.sent)
		if d.result.Rounds > 1 && (!helps || d.fits(foreseen)) {
			break
		}
		last = next
	}
	return d.checkPause()
}

// fits reports whether a pause is one that the user allows.
func (d *departure) fits(foreseen time.Duration) bool { return d.pause > 0 && foreseen <= d.pause }

// checkPause refuses a pause that is longer than the user allows.
func (d *departure) checkPause() error {
	foreseen := time.Duration(d.result.ForeseenMicroseconds) * time.Microsecond
	if d.pause == 0 || d.fits(foreseen) {
		return nil
	}
	return fmt.Errorf("%w: pid %d runs on where it was: it changes too fast, and would stand still for about %s: "+
		"allow that with --pause, or move it when it writes less", api.ErrInvalid, d.pid, foreseen.Round(time.Millisecond))
}

// copyRound saves the program and sends what the target does not have.
func (d *departure) copyRound(ctx context.Context) (round, error) {
	saved, err := d.save(ctx, &saveOrder{})
	if err != nil {
		return round{}, err
	}
	d.result.CopiedBytes += saved.GetWrittenBytes()
	d.newest = saved.GetGeneration()
	if err = d.checkRoomThere(saved); err == nil && d.result.Rounds == 0 {
		err = d.checkThere(ctx, saved)
	}
	var sent uint64
	begun, held := time.Now(), d.held
	if err == nil {
		sent, err = d.send(ctx, wire.Round, saved.GetGeneration())
	}
	if err == nil {
		var taken wire.Message
		taken, err = d.peer.await(ctx, wire.Taken)
		d.room = taken.RoomBytes
	}
	if err != nil {
		return round{}, fmt.Errorf("pid %d runs on where it was: %w", d.pid, err)
	}
	return round{sent, time.Since(begun) - (d.held - held), time.Duration(saved.GetPauseMicroseconds()) * time.Microsecond}, nil
}

// checkRoomThere refuses a round for which the target has no room.
func (d *departure) checkRoomThere(saved *api.CheckpointDone) error {
	if needed := saved.GetWrittenBytes(); needed > d.room {
		return fmt.Errorf("%w: %s has %s for the image, which needs %s: make room in /dev/shm there, or choose another "+
			"directory with --remote-dir", errNoRoom, d.to.name, humanize.Bytes(d.room), humanize.Bytes(needed))
	}
	return nil
}

// checkThere has the target check, before any memory is sent, whether the program can run there.
func (d *departure) checkThere(ctx context.Context, saved *api.CheckpointDone) error {
	if _, err := d.send(ctx, wire.Head, saved.GetGeneration()); err != nil {
		return err
	}
	if _, err := d.peer.await(ctx, wire.Checked); err != nil {
		return err
	}
	manifest, err := d.manifest()
	if err != nil {
		return err
	}
	return d.files.open(manifest)
}
