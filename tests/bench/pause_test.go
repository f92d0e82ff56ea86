package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
)

// rewrites are rates of writes, in percent of the memory per second.
var rewrites = []uint64{1, 10, 100}

func measurePause(t *testing.T, b *bench) []row { return b.pauses(t, b.disk, rewrites) }

func measureTmpfs(t *testing.T, b *bench) []row {
	rows := b.pauses(t, b.memory, rewrites[:1])
	for i := range rows {
		rows[i].name = strings.Replace(rows[i].name, "pre-dump", "tmpfs: pre-dump", 1)
		rows[i].name = strings.Replace(rows[i].name, "dump /", "tmpfs: dump /", 1)
	}
	return rows
}

// pauses compares pre-dumps, dumps of a stopped program, and cp.
func (b *bench) pauses(t *testing.T, place string, percents []uint64) (rows []row) {
	daemon := b.daemon(t)
	program := b.startHolder(t, daemon, b.bytes)
	b.reuseSpace(t, place, b.bytes)
	var throughput []row
	for _, percent := range percents {
		program.set(rewriteBytesPerSecond, b.bytes/100*percent)
		p := program.comparePauses(b, place, percent == 1)
		r := row{
			name: fmt.Sprintf(
				"pre-dump's pause, %d %%/s rewritten",
				percent,
			), value: median(p.pauses) / median(p.stopped),
			note: fmt.Sprintf("%s of %.2f s stopped; %s", milliseconds(median(p.pauses)), median(p.stopped), p.note()),
		}
		switch percent {
		case 1:
			r.most = 1.0 / 20
			throughput = p.throughput(b)
		case 100:
			r.most = 1.0 / 10
		}
		rows = append(rows, r)
	}
	program.set(rewriteBytesPerSecond, 0)
	program.finish()
	return append(rows, throughput...)
}

// pauseTimes are the measurements, in seconds.
type pauseTimes struct {
	pauses, totals, stopped, copies, synced []float64
	// seen are the pauses as the program measured them.
	seen     []float64
	rewrites []float64 // bytes a second
	last     *api.CheckpointDone
}

// comparePauses keeps one image at a time. A write to space that was freed recently is often
// several times as fast as one that needs new space on the disk, so both sides get the same.
func (h *holder) comparePauses(b *bench, place string, copies bool) (p pauseTimes) {
	for range b.rounds {
		dir := imageDir(h.t, place)
		p.measure(h, dir)
		remove(h.t, dir)

		dir = imageDir(h.t, place)
		p.stopped = append(
			p.stopped,
			seconds(h.checkpoint(dir, checkpointOptions{stopTheWorld: true}).GetTotalMicroseconds()),
		)
		if copies {
			copied, synced := b.replaceByCopy(h.t, dir)
			p.copies, p.synced = append(p.copies, copied), append(p.synced, synced)
		}
		remove(h.t, dir)
	}
	return p
}

// measure saves a program once, while it runs.
func (p *pauseTimes) measure(h *holder, dir string) {
	settle(h.t, dir)
	h.waitStep()
	h.set(longestStepNs, 0)
	before, start := h.get(rewrittenBytes), time.Now()
	p.last = h.checkpoint(dir, checkpointOptions{})
	h.waitStep()
	p.rewrites = append(p.rewrites, float64(h.get(rewrittenBytes)-before)/time.Since(start).Seconds())
	p.seen = append(p.seen, float64(h.get(longestStepNs))/1e9)
	p.pauses = append(p.pauses, seconds(p.last.GetPauseMicroseconds()))
	p.totals = append(p.totals, seconds(p.last.GetTotalMicroseconds()))
}

// note describes the parts of the pause.
func (p *pauseTimes) note() string {
	text := fmt.Sprintf(
		"seen %s; in all %.2f s, %.0f MB/s rewritten;",
		milliseconds(median(p.seen)),
		median(p.totals),
		median(p.rewrites)/1e6,
	)
	for _, name := range []string{"quiesce", "freeze", "cut.gpu", "cut.processes", "resume"} {
		text += fmt.Sprintf(" %s %s", name, milliseconds(seconds(p.last.GetTookMicroseconds()[name])))
	}
	return text
}

func (p *pauseTimes) throughput(b *bench) []row {
	gigabytes := float64(b.bytes) / 1e9
	return []row{
		{
			name: "dump / cp and sync", value: median(p.synced) / median(p.stopped), least: 0.8,
			note: fmt.Sprintf(
				"stopped: %.2f GB/s; cp --reflink=never and sync: %.2f",
				gigabytes/median(p.stopped),
				gigabytes/median(p.synced),
			),
		},
		{
			name: "dump / cp", value: median(p.copies) / median(p.stopped),
			note: fmt.Sprintf("the dump is on the disk, the copy (%.2f GB/s) is not", gigabytes/median(p.copies)),
		},
	}
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.0f ms", seconds*1e3) }
