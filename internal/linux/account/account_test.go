package account

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestName compares with what id(1) says.
func TestName(t *testing.T) {
	if _, err := exec.LookPath("id"); err != nil {
		t.Skip(err)
	}
	for _, uid := range []uint32{0, 1, 65534, 61241} {
		number := strconv.FormatUint(uint64(uid), 10)
		want, known := number, ""
		if name, err := exec.Command("id", "-nu", number).Output(); err == nil {
			want = string(name[:len(name)-1])
			known = want
		}
		if got := Name(uid); got != want {
			t.Errorf("user %d is %q, and id says %q", uid, got, want)
		}
		if got := KnownName(uid); got != known {
			t.Errorf("user %d is known as %q, and id says %q", uid, got, known)
		}
	}
}

// TestOverflow asks another reader of a number that the kernel has.
func TestOverflow(t *testing.T) {
	want, err := exec.Command("sysctl", "-n", "kernel.overflowuid").Output()
	if err != nil {
		t.Skip(err)
	}
	if got := strconv.FormatUint(uint64(Overflow()), 10); got != strings.TrimSpace(string(want)) {
		t.Errorf("%s, want %s", got, want)
	}
}
