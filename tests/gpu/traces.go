package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// places are the directories for files of running rows. They belong to this run, so leftovers of a
// row that was cut off differ from other files on the machine.
type places struct {
	run    string // for daemons, below /run
	memory string // for images; empty if unavailable
	disk   string // for images and everything else
}

// newPlaces creates them. Only the disk is required; a row that needs the others reports it.
func newPlaces(scratch string) (p places, err error) {
	for _, each := range []struct {
		path *string
		in   string
	}{{&p.run, "/run"}, {&p.memory, "/dev/shm"}, {&p.disk, scratch}} {
		if *each.path, err = os.MkdirTemp(each.in, "phos-gpu-"); err == nil {
			_ = os.Chmod(*each.path, 0o755) // some programs run as other users
		}
	}
	return p, err
}

// environment makes tests use the places.
func (p places) environment() []string {
	return []string{
		"PHOS_TEST_RUN=" + p.run,
		"PHOS_BENCH_MEMORY=" + p.memory,
		"PHOS_BENCH_DIR=" + p.disk,
		"TMPDIR=" + p.disk,
	}
}

// arguments pass the places to an attendant.
func (p places) arguments() []string { return []string{p.run, p.memory, p.disk} }

// clean ends all processes below this one and empties the places, which only this process uses.
func (p places) clean() {
	for range 100 {
		children := descendants(os.Getpid())
		if len(children) == 0 {
			break
		}
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
		}
		time.Sleep(20 * time.Millisecond)
	}
	mounts := readMounts()
	slices.SortFunc(mounts, func(a, b mount) int { return strings.Compare(b.path, a.path) })
	for _, m := range mounts {
		if m.kind == "cgroup2" {
			removeGroups(m.path)
		}
	}
	for _, path := range p.arguments() {
		if path == "" {
			continue
		}
		for _, m := range mounts {
			if strings.HasPrefix(m.path, path+"/") {
				_ = unix.Unmount(m.path, unix.MNT_DETACH)
			}
		}
		left, _ := os.ReadDir(path)
		for _, entry := range left {
			_ = os.RemoveAll(filepath.Join(path, entry.Name()))
		}
	}
}

func (p places) remove() {
	for _, path := range p.arguments() {
		if path != "" {
			_ = os.RemoveAll(path)
		}
	}
}

// mount is a mount that this process sees.
type mount struct{ path, kind string }

// readMounts returns the mounts that this process sees, none if they cannot be read.
func readMounts() (mounts []mount) {
	text, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 2 {
			mounts = append(mounts, mount{fields[1], fields[2]})
		}
	}
	return mounts
}

// removeGroups removes empty cgroups whose process has exited.
func removeGroups(hierarchy string) {
	_ = filepath.WalkDir(hierarchy, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || !strings.HasPrefix(entry.Name(), "phos.") {
			return nil // a directory that cannot be read has nothing of ours
		}
		// The name consists of a kind, a namespace, the owner's pid, and its start time.
		words := strings.Split(entry.Name(), ".")
		if owner, err := strconv.Atoi(words[max(0, len(words)-2)]); err == nil &&
			errors.Is(unix.Kill(owner, 0), unix.ESRCH) {
			_ = unix.Rmdir(path)
		}
		return nil
	})
}

// descendants returns the descendants of a process, without the process.
func descendants(root int) []int {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	found := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if !found[pid] && (parent == root || found[parent]) {
				found[pid], grown = true, true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
