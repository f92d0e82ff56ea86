package bench

import (
	"fmt"
	"testing"
)

// measureGrowth returns a table of sizes.
func measureGrowth(t *testing.T, b *bench) (rows []row) {
	daemon := b.daemon(t)
	for bytes := min(256*mebibyte, b.largest); bytes <= b.largest; bytes *= 2 {
		rows = append(rows, b.growth(b.startHolder(t, daemon, bytes)))
	}
	return rows
}

func (b *bench) growth(program *holder) row {
	t, bytes := program.t, program.bytes
	program.set(rewriteBytesPerSecond, bytes/100)
	b.reuseSpace(t, b.disk, bytes)
	p := program.comparePauses(b, b.disk, false)
	program.set(rewriteBytesPerSecond, 0)
	dir := imageDir(t, b.disk)
	program.dumpForRestore(dir)
	lazy, _ := program.firstStep(false)
	program.Kill()
	eager, _ := program.firstStep(true)
	program.finish()
	remove(t, dir)
	return row{
		name: fmt.Sprintf("%d MiB: pause", bytes/mebibyte), value: median(p.pauses) * 1e3, unit: "ms",
		note: fmt.Sprintf("pre-dump %.2f s, stopped %.2f s; first step after a restore: lazy %.2f s, eager %.2f s",
			median(p.totals), median(p.stopped), lazy, eager),
	}
}
