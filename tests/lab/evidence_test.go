package lab

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/rpc"
)

func TestWithoutPhos(t *testing.T) {
	under := []string{
		"A=1", "LD_PRELOAD=/x/libphos.so", "LD_LIBRARY_PATH=" + filepath.Join(Bin(), "lib") + ":/cuda/lib:", rpc.SocketVariable + "=/outer",
	}
	t.Setenv(rpc.SocketVariable, "/inner")
	for library, want := range map[string][]string{
		"":        {"A=1", "LD_LIBRARY_PATH=/cuda/lib", rpc.SocketVariable + "=/inner"},
		"/y.so.1": {"A=1", "LD_LIBRARY_PATH=/cuda/lib", "LD_PRELOAD=/y.so.1", rpc.SocketVariable + "=/inner"},
	} {
		if got := withoutPhos(under, library); !slices.Equal(got, want) {
			t.Errorf("driver %q: %q, want %q", library, got, want)
		}
	}
}
