package scenarios

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestRefusals: mistakes on the command line. Each error says what happened, to what, and what to
// do; nothing is left behind, and the program continues.
func TestRefusals(t *testing.T) {
	d := start(t)
	a := stepperCommand(t, program(d))
	a.step(1, 1)
	room := open(t)
	at := func(name string) string { return filepath.Join(room, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), nil, 0o644), os.Mkdir(at("full"), 0o755), os.WriteFile(at("full/thing"), nil, 0o644),
		os.Symlink(at("missing"), at("link")), os.Mkdir(at("empty"), 0o755), os.Mkdir(at("target"), 0o755),
		os.Symlink(at("target"), at("good")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	pid, self := strconv.Itoa(a.pid), strconv.Itoa(os.Getpid())
	a.preDump(d, at("image"))
	for _, test := range []struct {
		line string
		says []string
	}{
		{"--pre-dump --dir new --pid 1", []string{"pid 1 is what everything here was started by"}},
		{"--pre-dump --dir new --pid " + self, []string{"pid " + self, "has started the very pos_cli that asks"}},
		{"--pre-dump --dir new --pid 4194303", []string{"no such program: pid 4194303"}},
		{"--pre-dump --dir file --pid " + pid, []string{"open file: not a directory", "name a directory"}},
		{"--pre-dump --dir file/ --pid " + pid, []string{"not a directory", "name a directory"}},
		{"--pre-dump --dir /phos-no/way --pid " + pid, []string{
			"no such file or directory", "/phos-no is missing: create it first: mkdir -p '/phos-no'",
		}},
		{"--pre-dump --dir link --pid " + pid, []string{"a link to " + at("missing")}},
		{"--pre-dump --dir full --pid " + pid, []string{at("full/thing"), "an image needs a directory that is empty"}},
		{"--restore --dir nowhere", []string{
			"open nowhere: no such file or directory", "pos_cli --pre-dump or --dump wrote",
		}},
		{"--restore --dir file", []string{"an image is a directory"}},
		{"--restore --dir empty", []string{"no image of phos is there", "--pre-dump"}},
		{"--pre-restore --dir empty", []string{"no image of phos is there", "--pre-dump"}},
		{"--clean --dir full", []string{"no image of phos is there", "full/thing"}},
		{"--restore --dir image --generation 9", []string{"no such generation: 9", "pos_cli image list image"}},
		{"image show image --generation 9", []string{"no such generation: 9", "pos_cli image list image"}},
		{"image diff image 1 2", []string{"nothing else", "pos_cli help image diff"}},
		{"--trace-resource --subaction stop --pid " + pid, []string{"pid " + pid}},
	} {
		command := d.Command(strings.Fields(test.line)...)
		command.Dir = room
		text, err := run(t, command)
		for _, each := range test.says {
			if err == nil || !strings.Contains(text, each) || strings.Contains(text, "invalid request") {
				t.Errorf("%s: %v: %q lacks %q", test.line, err, text, each)
			}
		}
	}
	if _, err := os.Lstat(at("new")); err == nil {
		t.Error("the refused command left a directory behind")
	}
	// The directory is given as a symbolic link; then relative to a removed working directory.
	mustCLI(t, d, "--pre-dump", "--dir", at("good")+"/", "--pid", pid)
	if left, _ := os.ReadDir(at("target")); len(left) == 0 {
		t.Error("no image in the link's target")
	}
	gone := d.Command()
	gone.Args = []string{
		"sh",
		"-c",
		`cd "$1" && rmdir "$1" && exec "$2" --pre-dump --dir new --pid "$3"`,
		"sh",
		at("empty"),
		gone.Path,
		pid,
	}
	gone.Path = "/bin/sh"
	if text, err := run(t, gone); err == nil || !strings.Contains(text, "the current directory was removed") {
		t.Errorf("from a removed directory: %v: %s", err, text)
	}
	a.step(1, 2)
	a.finish(3)
	d.Empty()
}
