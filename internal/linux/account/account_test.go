package account

import (
	"os/exec"
	"strconv"
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
