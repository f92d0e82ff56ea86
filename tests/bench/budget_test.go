package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
)

// measureBudget measures the memory that a checkpoint takes of a program that rewrites all its
// memory.
func measureBudget(t *testing.T, b *bench) (rows []row) {
	daemon := b.daemon(t)
	program := b.startHolder(t, daemon, b.bytes)
	program.set(rewriteBytesPerSecond, b.bytes)
	for _, budget := range []uint64{1 << 30, 256 * mebibyte, 64 * mebibyte} {
		dir := imageDir(t, b.disk)
		program.waitStep()
		var done *api.CheckpointDone
		extra := extraMemory(daemon.PID(), func() { done = program.checkpoint(dir, checkpointOptions{budgetBytes: budget}) })
		remove(t, dir)
		rows = append(rows, row{
			name: fmt.Sprintf(
				"memory of a dump, budget %d MiB",
				budget/mebibyte,
			), value: float64(extra) / float64(budget), most: 1,
			note: fmt.Sprintf(
				"of the budget; %d MiB; pause %s, in all %.2f s; all of the memory is rewritten again and again",
				extra/mebibyte,
				milliseconds(seconds(done.GetPauseMicroseconds())),
				seconds(done.GetTotalMicroseconds()),
			),
		})
	}
	program.set(rewriteBytesPerSecond, 0)
	program.finish()
	return rows
}

// extraMemory polls how much memory phosd and its descendants use while do runs, and returns the
// maximum increase.
func extraMemory(phosd int, do func()) uint64 {
	before := residentBelow(phosd)
	done, most := make(chan struct{}), make(chan uint64, 1)
	end := sync.OnceFunc(func() { close(done) })
	defer end() // do may end the test
	go func() {
		seen := before
		for {
			select {
			case <-done:
				most <- seen
				return
			case <-time.After(5 * time.Millisecond):
				seen = max(seen, residentBelow(phosd))
			}
		}
	}()
	do()
	end()
	return <-most - before
}

// ownMemory are the lines of /proc/PID/status that count private memory.
var ownMemory = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB`)

// residentBelow returns the memory of a process and its descendants.
func residentBelow(pid int) (bytes uint64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if match := ownMemory.FindSubmatch(status); match != nil {
		kibibytes, _ := strconv.ParseUint(string(match[1]), 10, 64)
		bytes = kibibytes << 10
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		children, _ := os.ReadFile(path)
		for _, child := range strings.Fields(string(children)) {
			if number, err := strconv.Atoi(child); err == nil {
				bytes += residentBelow(number)
			}
		}
	}
	return bytes
}
