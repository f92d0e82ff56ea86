package cgroup

import (
	"errors"
	"testing"
)

// TestFindLegacy reads lines in the kernel's form: proc_pid_mountinfo(5).
func TestFindLegacy(t *testing.T) {
	const mounts = `25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
27 25 0:24 /docker/1 /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
28 25 0:25 / /sys/fs/cgroup/me\040mory rw - cgroup cgroup rw,memory
29 25 0:26 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
`
	for _, test := range []struct {
		controller string
		want       mount
	}{
		{"cpu", mount{"/sys/fs/cgroup/cpu,cpuacct", "/docker/1"}},
		{"cpuacct", mount{"/sys/fs/cgroup/cpu,cpuacct", "/docker/1"}},
		{"memory", mount{"/sys/fs/cgroup/me mory", "/"}},
	} {
		if got, err := findLegacy(mounts, test.controller); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.controller, got, err, test.want)
		}
	}
	for _, controller := range []string{"pids", "mem", "systemd"} {
		if got, err := findLegacy(mounts, controller); !errors.Is(err, ErrNoController) {
			t.Errorf("%s: %+v, %v", controller, got, err)
		}
	}
}
