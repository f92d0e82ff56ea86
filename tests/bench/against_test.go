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

// rewrittenPart is the part of the memory that is rewritten during a checkpoint.
const rewrittenPart = 10

// phosTimes are the times that phos needs for a program, in seconds.
type phosTimes struct {
	stopped       float64 // a dump of the stopped program
	pause, total  float64 // of a pre-dump
	rewritten     float64 // the part of the memory that was written during the copy
	seen          float64 // the pause as the program measured it
	fastPause     float64 // of a pre-dump with this rate of writes
	lazy, running float64 // a restore's first step, and an eager one
	phases        string
}

// measureDriver compares phos with the checkpoint of NVIDIA's driver. The driver moves a stopped
// process's GPU memory into host memory, and then CRIU dumps everything.
func measureDriver(t *testing.T, b *bench) []row {
	onGPU(t)
	link, daemon := b.measureLink(t), b.daemon(t)
	place, where := b.placeFor(b.bytes, b.bytes)
	if place == "" {
		t.Skipf("no space for an image of %d MiB: %s", b.bytes/mebibyte, where)
	}
	ours := b.checkpointWithPhos(t, daemon, place)
	theirs := b.measureDriverCheckpoint(t, daemon)
	return append(ours.rows(b.bytes, link, where), theirs.rows(b.bytes, ours)...)
}

// checkpointWithPhos keeps one image at a time.
func (b *bench) checkpointWithPhos(t *testing.T, daemon *harness.Daemon, place string) (s phosTimes) {
	program := b.startHolder(t, daemon, b.bytes)
	dir := imageDir(t, place)
	s.stopped = seconds(program.checkpoint(dir, checkpointOptions{stopTheWorld: true}).GetTotalMicroseconds())
	remove(t, dir)

	fast := program.preDump(b, place, b.bytes/rewrittenPart)
	s.fastPause = fast.pauses[0]
	// Now with a rate at which rewrittenPart is rewritten in about the time of a checkpoint.
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

// preDump saves a program that rewrites its memory at the given rate.
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

// measureDriverCheckpoint measures the driver's side. A failure there is not an error of phos.
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
	// The driver's copy in host memory exists in addition to the image.
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

// placeFor returns a directory for an image and its kind: in memory, where no disk limits the
// speed, if enough memory remains; otherwise on the disk. If neither fits, where says how much
// space there is.
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

// hostMemoryVariable is the host memory of machines that report less: the memory of some virtual
// machines grows on use.
const hostMemoryVariable = "PHOS_BENCH_HOST_MEMORY"

// freeMemory returns the memory that the kernel can still allocate.
func freeMemory() uint64 {
	available, total := memoryInfo("MemAvailable"), memoryInfo("MemTotal")
	if has, err := strconv.ParseUint(os.Getenv(hostMemoryVariable), 10, 64); err == nil && has > total {
		available += has - total
	}
	return available
}

// mountMemory mounts a tmpfs with the size of the machine's memory over a directory. /dev/shm has
// half of it.
func mountMemory(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("phos-bench", dir, "tmpfs", 0, "size="+strconv.FormatUint(freeMemory(), 10)); err != nil {
		if !errors.Is(err, unix.EPERM) {
			t.Logf("images in memory only have the space of %s: %v", dir, err)
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

// memoryInfo returns a line of /proc/meminfo.
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
