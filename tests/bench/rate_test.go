package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
)

// spins is the work of a step. The step with a target takes about ten milliseconds, like a small
// training step. A step of half a millisecond is woken so often that the kernel's scheduler matters
// more than the work.
var spins = []struct {
	turns       uint64
	name        string
	leastOfRate float64
}{
	{400_000, "step rate beside a pre-dump", 0.8},
	{20_000, "rate of very short steps", 0},
}

// measureRate compares how fast a program runs with and without a concurrent checkpoint.
func measureRate(t *testing.T, b *bench) (rows []row) {
	daemon := b.daemon(t)
	program := b.startHolder(t, daemon, b.bytes)
	program.set(rewriteBytesPerSecond, b.bytes/100)
	b.reuseSpace(t, b.disk, b.bytes)
	for _, spin := range spins {
		program.set(spinTurnsPerStep, spin.turns)
		r := program.compareRates(b)
		r.name, r.least = spin.name, spin.leastOfRate
		rows = append(rows, r)
	}
	program.finish()
	return rows
}

func (h *holder) compareRates(b *bench) row {
	var alone, beside, throughput []float64
	var last *api.CheckpointDone
	measureAlone := func() { alone = append(alone, h.rate(func() { time.Sleep(b.while) })) }
	measureAlone()
	for range b.rounds {
		dir := imageDir(h.t, b.disk)
		settle(h.t, dir)
		beside = append(beside, h.rate(func() { last = h.checkpoint(dir, checkpointOptions{}) }))
		throughput = append(throughput, float64(h.bytes)/1e9/seconds(last.GetTotalMicroseconds()))
		remove(h.t, dir)
		measureAlone()
	}
	return row{
		value: median(beside) / median(alone),
		note: fmt.Sprintf("%.1f of %.1f steps a second; the pre-dump: %.2f GB/s, its pause %s",
			median(beside), median(alone), median(throughput), milliseconds(seconds(last.GetPauseMicroseconds()))),
	}
}

// changedPart is the part that changes between two checkpoints.
const changedPart = 100

// measureSecond compares how much two checkpoints write.
func measureSecond(t *testing.T, b *bench) []row {
	const chunkBytes = 2 * mebibyte
	daemon := b.daemon(t)
	program := b.startHolder(t, daemon, b.bytes)
	dir := imageDir(t, b.disk)
	first := program.checkpoint(dir, checkpointOptions{})
	changed := max(b.bytes/chunkBytes/changedPart, 1)
	program.set(rewriteOnceChunks, changed)
	program.await("chunks are rewritten", func() bool { return program.get(rewrittenOnce) == changed })
	second := program.checkpoint(dir, checkpointOptions{})
	remove(t, dir)
	program.finish()
	if least := changed * chunkBytes; second.GetGpuWrittenBytes() < least {
		t.Errorf("%d bytes changed, but only %d were written", least, second.GetGpuWrittenBytes())
	}
	processes := func(done *api.CheckpointDone) float64 {
		return float64(done.GetWrittenBytes()-done.GetGpuWrittenBytes()) / mebibyte
	}
	return []row{{
		name:  "device bytes of a second dump",
		value: float64(second.GetGpuWrittenBytes()) / float64(first.GetGpuWrittenBytes()), most: 0.015,
		note: fmt.Sprintf(
			"of the first's; %d chunks of %d were changed; %.1f of %.0f MiB; processes: %.1f of %.1f MiB; %.2f of %.2f s",
			changed,
			b.bytes/chunkBytes,
			float64(second.GetGpuWrittenBytes())/mebibyte,
			float64(first.GetGpuWrittenBytes())/mebibyte,
			processes(
				second,
			),
			processes(first),
			seconds(second.GetTotalMicroseconds()),
			seconds(first.GetTotalMicroseconds()),
		),
	}}
}
