package bench

import (
	"fmt"
	"os/exec"
	"testing"
)

// measureThreads saves and restores programs with many threads.
func measureThreads(t *testing.T, b *bench) (rows []row) {
	daemon := b.daemon(t)
	for _, each := range []struct {
		threads                int
		mostPause, mostRestore float64
	}{{500, 0.3, 0}, {3000, 1.5, 1.5}} {
		program := b.startHolderWith(t, daemon, 8*mebibyte, func(command *exec.Cmd) {
			command.Env = append(command.Env, fmt.Sprintf("THREADS=%d", each.threads))
		})
		var p pauseTimes
		var criu []float64
		for range b.rounds {
			dir := imageDir(t, b.disk)
			p.measure(program, dir)
			criu = append(criu, seconds(p.last.GetTookMicroseconds()["cut.processes"]))
			remove(t, dir)
		}
		dir := imageDir(t, b.disk)
		program.dumpForRestore(dir)
		var restores []float64
		for range b.rounds {
			step, _ := program.firstStep(false)
			restores = append(restores, step)
			program.Kill()
		}
		program.firstStep(false)
		program.finish()
		remove(t, dir)
		rows = append(rows, row{
			name: fmt.Sprintf("%d threads: pause", each.threads), value: 1e3 * median(p.pauses), unit: "ms",
			most: 1e3 * each.mostPause, note: fmt.Sprintf("of this CRIU %s; %s", milliseconds(median(criu)), p.note()),
		}, row{
			name: fmt.Sprintf("%d threads: restore, until the first step", each.threads), value: 1e3 * median(restores),
			unit: "ms", most: 1e3 * each.mostRestore,
		})
	}
	return rows
}
