package harness

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
)

func TestWithoutPhos(t *testing.T) {
	under := []string{
		"A=1", "LD_PRELOAD=/x/libphos.so", "LD_LIBRARY_PATH=" + filepath.Join(Bin(), "lib") + ":/cuda/lib:",
		api.SocketVariable + "=/outer",
	}
	t.Setenv(api.SocketVariable, "/inner")
	for library, want := range map[string][]string{
		"":        {"A=1", "LD_LIBRARY_PATH=/cuda/lib", api.SocketVariable + "=/inner"},
		"/y.so.1": {"A=1", "LD_LIBRARY_PATH=/cuda/lib", "LD_PRELOAD=/y.so.1", api.SocketVariable + "=/inner"},
	} {
		if got := withoutPhos(under, library); !slices.Equal(got, want) {
			t.Errorf("driver %q: %q, want %q", library, got, want)
		}
	}
}
