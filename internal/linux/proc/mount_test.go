package proc

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMounts(t *testing.T) {
	got, err := ParseMounts(`22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
36 22 0:30 /a\040b /with\011tab\134 rw - cgroup2 cgroup2 rw,nsdelegate
37 22 0:31 / /no/source rw - tmpfs  rw
`)
	want := []Mount{
		{22, unix.Mkdev(254, 0), "/", "/", "ext4", "rw,discard"},
		{36, unix.Mkdev(0, 30), "/a b", "/with\ttab\\", "cgroup2", "rw,nsdelegate"},
		{37, unix.Mkdev(0, 31), "/", "/no/source", "tmpfs", "rw"}, // an empty source
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"\n", "22 1 254:0 / /", "22 1 254:0 / / rw - ext4", "x 1 254:0 / / rw - ext4 a rw"} {
		if got, err := ParseMounts(bad); err == nil {
			t.Errorf("%q: accepted as %v", bad, got)
		}
	}
}

// TestParseOwnMounts compares the mounts of this process with the older form of the list.
func TestParseOwnMounts(t *testing.T) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := ParseMounts(string(text))
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile("/proc/thread-self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for line := range strings.Lines(string(old)) { // source point kind options 0 0
		fields := strings.Split(line, " ")
		want = append(want, strings.ReplaceAll(fields[1], `\040`, " ")+" "+fields[2])
	}
	for _, each := range mounts {
		got = append(got, each.Point+" "+each.Kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
