package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// rewrittenPart is how much of the memory is rewritten while it is saved.
const rewrittenPart = 10

// phosTimes is what phos needs for a program, in seconds.
type phosTimes struct {
	stopped       float64 // a dump with the program standing still
	pause, total  float64 // of a pre-dump
	rewritten     float64 // the part of the memory that was written during the copy
	seen          float64 // the pause as the program saw it
	fastPause     float64 // of a pre-dump while so much is rewritten in a second
	lazy, running float64 // a restore's first step, and an eager one
	phases        string
}

// measureDriver compares phos with what NVIDIA's driver does by itself: it moves a process's GPU
// memory into the host's, with the process standing still, and then CRIU dumps it all.
func measureDriver(t *testing.T, b *bench) []row {
	onGPU(t)
	link, daemon := b.measureLink(t), b.daemon(t)
	place, where := b.placeFor(b.bytes, b.bytes)
	if place == "" {
		t.Skipf("there is no room for an image of %d MiB: %s", b.bytes/mebibyte, where)
	}
	ours := b.checkpointWithPhos(t, daemon, place)
	theirs := b.measureDriverCheckpoint(t, daemon)
	return append(ours.rows(b.bytes, link, where), theirs.rows(b.bytes, ours)...)
}

// checkpointWithPhos has one image at a time.
func (b *bench) checkpointWithPhos(t *testing.T, daemon *harness.Daemon, place string) (s phosTimes) {
	program := b.startHolder(t, daemon, b.bytes)
	dir := imageDir(t, place)
	s.stopped = seconds(program.checkpoint(dir, checkpointOptions{stopTheWorld: true}).GetTotalMicroseconds())
	remove(t, dir)

	fast := program.preDump(b, place, b.bytes/rewrittenPart)
	s.fastPause = fast.pauses[0]
	// Now at a pace at which that part is rewritten while it takes about as long.
	p := program.preDump(b, place, uint64(float64(b.bytes)/rewrittenPart/fast.totals[0]))
	s.pause, s.total, s.seen, s.phases = p.pauses[0], p.totals[0], p.seen[0], p.note()
	s.rewritten = p.rewrites[0] * s.total / float64(b.bytes)
	program.set(rewriteBytesPerSecond, 0)

	dir = imageDir(t, place)
	program.dumpForRestore(dir)
	s.lazy, _ = program.firstStep(false)
	program.Kill()
	_, s.running = program.firstStep(true)
	program.finish()
	remove(t, dir)
	return s
}

// preDump saves a program that rewrites so much of its memory in a second.
func (h *holder) preDump(b *bench, place string, bytesPerSecond uint64) (p pauseTimes) {
	h.set(rewriteBytesPerSecond, bytesPerSecond)
	dir := imageDir(h.t, place)
	p.measure(h, dir)
	remove(h.t, dir)
	return p
}

func (s phosTimes) rows(bytes uint64, link hostLink, where string) []row {
	rate := func(tookSeconds float64) float64 { return float64(bytes) / tookSeconds / 1e9 }
	return []row{
		{
			name: "dump / the host's link", value: rate(s.stopped) / link.from, least: 0.85,
			note: fmt.Sprintf(
				"%.2f of %.2f GB/s, the program standing still; into %s",
				rate(s.stopped),
				link.from,
				where,
			),
		},
		{
			name: "eager restore / the host's link", value: rate(s.running) / link.to, least: 0.85,
			note: fmt.Sprintf(
				"%.2f of %.2f GB/s, until the program runs with all its memory",
				rate(s.running),
				link.to,
			),
		},
		{
			name: "pre-dump's pause / stop-the-world", value: s.pause / s.stopped,
			note: fmt.Sprintf(
				"%s of %.2f s; %.0f %% rewritten; %s",
				milliseconds(s.pause),
				s.stopped,
				100*s.rewritten,
				s.phases,
			),
		},
		{
			name: fmt.Sprintf("  with %d %%/s rewritten", 100/rewrittenPart), value: s.fastPause / s.stopped,
			note: milliseconds(s.fastPause),
		},
		{
			name:  "first step after a restore, lazy",
			value: s.lazy,
			unit:  "s",
			note:  fmt.Sprintf("%.2f s until it runs with all its memory", s.running),
		},
	}
}

// measureDriverCheckpoint is the driver's side; what does not work there is no failure of phos's.
func (b *bench) measureDriverCheckpoint(t *testing.T, daemon *harness.Daemon) driverTimes {
	t.Helper()
	criu, err := harness.CRIU()
	harness.Need(t, "criu", err)
	tool, err := newDriverTool(t, harness.NativeEnvironment())
	if err != nil {
		return driverTimes{notBegun: err}
	}
	program := b.startHolderWith(t, daemon, b.bytes, func(c *exec.Cmd) { c.Env = harness.NativeEnvironment() })
	program.set(rewriteBytesPerSecond, b.bytes/rewrittenPart)
	program.waitStep()
	// What the driver brings into the host's memory is there beside the image.
	dir, where := b.placeFor(2*b.bytes, b.bytes)
	if dir != "" {
		dir = imageDir(t, dir)
		defer remove(t, dir)
	}
	d := checkpointWithDriver(tool, criu, program, dir)
	d.where = where
	if d.withoutRestore == nil {
		program.set(rewriteBytesPerSecond, 0)
		d.withoutRestore = program.end()
	}
	_ = unix.Kill(program.PID, unix.SIGKILL)
	return d
}

func (d *driverTimes) rows(bytes uint64, ours phosTimes) (rows []row) {
	if d.notBegun != nil {
		return []row{{name: "the driver's own checkpoint: none", value: 0, note: d.notBegun.Error()}}
	}
	rows = []row{
		{
			name: "pre-dump's pause / the driver's stop", value: ours.pause / d.stopped, most: 1.0 / 20,
			note: fmt.Sprintf(
				"%s of %.2f s, %.0f %% rewritten; %s; into %s",
				milliseconds(ours.pause),
				d.stopped,
				100*ours.rewritten,
				d.note(),
				d.where,
			),
		},
		{
			name: fmt.Sprintf(
				"  with %d %%/s rewritten",
				100/rewrittenPart,
			), value: ours.fastPause / d.stopped, note: milliseconds(ours.fastPause),
		},
		{
			name: "dump, in the driver's time", value: ours.stopped / d.stopped, most: 1,
			note: fmt.Sprintf(
				"%.2f of %.2f s; the driver and CRIU: %.2f GB/s",
				ours.stopped,
				d.stopped,
				float64(bytes)/d.stopped/1e9,
			),
		},
	}
	if d.withoutRestore != nil {
		return append(rows, row{name: "the driver's restore: none", note: d.withoutRestore.Error()})
	}
	return append(rows, row{
		name: "first step after a restore, in the driver's time", value: ours.lazy / d.restored, most: 1,
		note: fmt.Sprintf(
			"%.2f of %.2f s: CRIU %.2f s, restore %.2f s, unlock %s",
			ours.lazy,
			d.restored,
			d.processes,
			d.restore,
			milliseconds(d.unlock),
		),
	})
}

// placeFor is where an image fits, and what that is: in memory, where no disk is in the way, as
// long as so much of it is left; or on the disk. Where there is none, where says how much there is.
func (b *bench) placeFor(memoryBytes, diskBytes uint64) (place, where string) {
	const reserveBytes = 4 << 30
	free, room := freeMemory(), freeSpace(b.disk)
	switch {
	case free > memoryBytes/10*11+reserveBytes || free > 4*memoryBytes:
		return b.memory, "memory"
	case room > diskBytes/10*11:
		return b.disk, "a disk"
	}
	return "", fmt.Sprintf("%d MiB of memory and %d MiB of the disk are free", free/mebibyte, room/mebibyte)
}

func freeSpace(dir string) uint64 {
	var disk unix.Statfs_t
	if unix.Statfs(dir, &disk) != nil {
		return 0
	}
	return disk.Bavail * uint64(disk.Bsize)
}

// hostMemoryVariable is how much memory the machine has, where it shows less: some virtual machines
// grow when memory is used.
const hostMemoryVariable = "PHOS_BENCH_HOST_MEMORY"

// freeMemory is what the kernel can still give.
func freeMemory() uint64 {
	available, total := memoryInfo("MemAvailable"), memoryInfo("MemTotal")
	if has, err := strconv.ParseUint(os.Getenv(hostMemoryVariable), 10, 64); err == nil && has > total {
		available += has - total
	}
	return available
}

// mountMemory mounts a tmpfs over a directory, which holds all that the machine's memory does: the
// shared one holds half.
func mountMemory(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("phos-bench", dir, "tmpfs", 0, "size="+strconv.FormatUint(freeMemory(), 10)); err != nil {
		if !errors.Is(err, unix.EPERM) {
			t.Logf("images in memory have only the room of %s: %v", dir, err)
		}
		return
	}
	t.Cleanup(func() {
		for range 50 {
			if err := unix.Unmount(dir, 0); err == nil || errors.Is(err, unix.EINVAL) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
}

// memoryInfo is a line of the kernel's account of memory.
func memoryInfo(name string) (bytes uint64) {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name+":" {
			kibibytes, _ := strconv.ParseUint(fields[1], 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}
