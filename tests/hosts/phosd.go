package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/phos-gpu/phos/tests/harness"
)

// Binary returns the path of a program of phos.
func (h *Host) Binary(name string) string { return filepath.Join(h.fleet.programs, name) }

// Phosd starts a phosd with software GPUs, at its default places. Flags are those of phosd, and
// override the defaults.
func (h *Host) Phosd(gpus int, flags ...string) *Daemon {
	h.t.Helper()
	harness.Need(h.t, "build", harness.Built())
	arguments := []string{
		h.Binary("phosd"), fmt.Sprintf("--gpus=soft:%d", gpus), "--log-level=debug",
	}
	if criu, err := harness.CRIU(); err == nil {
		arguments = append(arguments, "--criu="+criu)
	}
	return h.Daemon(Daemon{Name: "phosd", Arguments: append(arguments, flags...), ReadyFD: true})
}

// CLI prepares a pos_cli on the host.
func (h *Host) CLI(ctx context.Context, arguments ...string) *Command {
	return h.Command(ctx, append([]string{h.Binary("pos_cli")}, arguments...)...)
}

// RunCLI runs a pos_cli as root, which must succeed, and returns its output.
func (h *Host) RunCLI(arguments ...string) string {
	h.t.Helper()
	return h.Run(append([]string{h.Binary("pos_cli")}, arguments...)...)
}

// Status is what `pos_cli --status --json` prints, as far as tests of several hosts need it.
type Status struct {
	Programs []struct {
		PID     int
		Command string
	}
	GPUs []struct {
		Index     uint32
		UsedBytes uint64 `json:"used_bytes"`
		PIDs      []int
	}
}

// Status returns the status of the host's phosd.
func (h *Host) Status() (status Status) {
	h.t.Helper()
	text := h.RunCLI("--status", "--json")
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		h.t.Fatalf("status of %s: %v: %.200s", h.Name, err, text)
	}
	return status
}
