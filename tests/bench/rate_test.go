package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/rpc"
)

// spinTurns make a step of about ten milliseconds.
const spinTurns = 20_000

// measureRate compares how fast a program runs beside a checkpoint and without.
func measureRate(t *testing.T, b *bench) []row {
	daemon := b.daemon(t)
	program := b.hold(t, daemon, b.bytes)
	program.set(spinTurnsPerStep, spinTurns)
	program.set(rewriteBytesPerSecond, b.bytes/100)
	var alone, beside, throughput []float64
	var last *rpc.CheckpointDone
	measureAlone := func() { alone = append(alone, program.rate(func() { time.Sleep(b.while) })) }
	measureAlone()
	for range b.rounds {
		dir := imageDir(t, b.disk)
		settle(t, dir)
		beside = append(beside, program.rate(func() { last = program.save(dir, saveOptions{}) }))
		throughput = append(throughput, float64(b.bytes)/1e9/seconds(last.GetTotalMicroseconds()))
		remove(t, dir)
		measureAlone()
	}
	program.finish()
	return []row{{
		name: "step rate beside a pre-dump", value: median(beside) / median(alone), least: 0.8,
		note: fmt.Sprintf("%.1f of %.1f steps a second; the pre-dump: %.2f GB/s, its pause %s",
			median(beside), median(alone), median(throughput), milliseconds(seconds(last.GetPauseMicroseconds()))),
	}}
}

// changedPart is how much changes between two checkpoints.
const changedPart = 100

// measureSecond compares what two checkpoints write.
func measureSecond(t *testing.T, b *bench) []row {
	const chunkBytes = 2 * mebibyte
	daemon := b.daemon(t)
	program := b.hold(t, daemon, b.bytes)
	dir := imageDir(t, b.disk)
	first := program.save(dir, saveOptions{})
	changed := max(b.bytes/chunkBytes/changedPart, 1)
	program.set(rewriteOnceChunks, changed)
	program.await("chunks are rewritten", func() bool { return program.get(rewrittenOnce) == changed })
	second := program.save(dir, saveOptions{})
	remove(t, dir)
	program.finish()
	if least := changed * chunkBytes; second.GetGpuWrittenBytes() < least {
		t.Errorf("%d bytes were changed and %d written", least, second.GetGpuWrittenBytes())
	}
	processes := func(done *rpc.CheckpointDone) float64 {
		return float64(done.GetWrittenBytes()-done.GetGpuWrittenBytes()) / mebibyte
	}
	return []row{{
		name: "device bytes of a second dump", value: float64(second.GetGpuWrittenBytes()) / float64(first.GetGpuWrittenBytes()), most: 0.015,
		note: fmt.Sprintf("of the first's; %d chunks of %d were changed; %.1f of %.0f MiB; processes: %.1f of %.1f MiB; %.2f of %.2f s",
			changed, b.bytes/chunkBytes, float64(second.GetGpuWrittenBytes())/mebibyte, float64(first.GetGpuWrittenBytes())/mebibyte,
			processes(second), processes(first), seconds(second.GetTotalMicroseconds()), seconds(first.GetTotalMicroseconds())),
	}}
}
