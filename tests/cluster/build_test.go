package cluster

import (
	"os"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts/walltime"
)

// otherVersion is that of another build of all programs. It sees the wall clocks of hosts.
const otherVersion = "99.0.0-test"

// other is the directory of that build, which TestMain removes.
var other struct {
	sync.Once
	dir string
	err error
}

// otherBuild returns the directory with another build of all programs.
func otherBuild(t *testing.T) string {
	t.Helper()
	harness.Need(t, "build", harness.Built())
	other.Do(func() {
		if other.dir, other.err = os.MkdirTemp("", "phos-other-"); other.err == nil {
			other.err = os.Chmod(other.dir, 0o755) // launches run as other users
		}
		if other.err == nil {
			other.err = walltime.Programs(other.dir, otherVersion)
		}
	})
	harness.Need(t, "go", other.err)
	return other.dir
}

// removeBuild removes the other build.
func removeBuild() {
	if other.dir != "" {
		_ = os.RemoveAll(other.dir)
	}
}
