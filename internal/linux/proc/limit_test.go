package proc

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLimit(t *testing.T) {
	for name, resource := range map[string]int{OpenFiles: unix.RLIMIT_NOFILE, AddressSpace: unix.RLIMIT_AS} {
		var want unix.Rlimit
		if err := unix.Getrlimit(resource, &want); err != nil {
			t.Fatal(err)
		}
		if got, err := Limit(os.Getpid(), name); err != nil || got != want.Cur {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, want.Cur)
		}
	}
	if got, err := Limit(os.Getpid(), "Max"); err == nil {
		t.Errorf("no limit of this name: got %d", got)
	}
}
