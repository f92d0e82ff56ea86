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

// places are where rows put what they need while they run: directories of this run's own, so that
// what a row has left that was cut off can be told from what others do on the machine.
type places struct {
	run    string // of daemons, below /run
	memory string // for images; empty where there is none
	disk   string // for images and everything else
}

// newPlaces makes them. Only the disk must be there: what else a row needs it says itself.
func newPlaces(scratch string) (p places, err error) {
	for _, each := range []struct {
		path *string
		in   string
	}{{&p.run, "/run"}, {&p.memory, "/dev/shm"}, {&p.disk, scratch}} {
		if *each.path, err = os.MkdirTemp(each.in, "phos-gpu-"); err == nil {
			_ = os.Chmod(*each.path, 0o755) // programs of other users are among what is run
		}
	}
	return p, err
}

// environment has tests use the places.
func (p places) environment() []string {
	return []string{
		"PHOS_TEST_RUN=" + p.run,
		"PHOS_BENCH_MEMORY=" + p.memory,
		"PHOS_BENCH_DIR=" + p.disk,
		"TMPDIR=" + p.disk,
	}
}

// arguments carry the places to an attendant.
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
	mounts := mountsOf()
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

// mount is one of those that this process sees.
type mount struct{ path, kind string }

func mountsOf() (mounts []mount) {
	text, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 2 {
			mounts = append(mounts, mount{fields[1], fields[2]})
		}
	}
	return mounts
}

// removeGroups takes away cgroups that are empty and were made for a process that is gone.
func removeGroups(hierarchy string) {
	_ = filepath.WalkDir(hierarchy, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || !strings.HasPrefix(entry.Name(), "phos.") {
			return nil // what cannot be read has nothing of ours
		}
		// A kind, a namespace, the owner's pid, and when it started.
		words := strings.Split(entry.Name(), ".")
		if owner, err := strconv.Atoi(words[max(0, len(words)-2)]); err == nil &&
			errors.Is(unix.Kill(owner, 0), unix.ESRCH) {
			_ = unix.Rmdir(path)
		}
		return nil
	})
}

// descendants of a process, itself not among them.
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
