package soft

import (
	"log/slog"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/gputest"
)

// open opens a backend that discards its log.
func open(t testing.TB, spec string, options Options) *Backend {
	t.Helper()
	options.Logger = slog.New(slog.DiscardHandler)
	b, err := Open(spec, options)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	for name, spec := range map[string]string{
		"default":       "soft:1",
		"deterministic": "soft:2,deterministic,memory=256MiB",
		"one core":      "soft:1,cores=1,cc=7.5",
		"untracked":     "soft:1,marks=off",
	} {
		t.Run(name, func(t *testing.T) {
			gputest.Run(t, func(t testing.TB) gpu.Backend { return open(t, spec, Options{}) })
		})
	}
}
