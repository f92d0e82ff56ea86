package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cluster/api"
)

// Used is what a process uses, as JSON has it. What is not known is null.
type Used struct {
	Launch         string   `json:"launch"`
	Number         uint32   `json:"number"`
	Name           string   `json:"name"`
	Owner          string   `json:"owner"`
	Job            string   `json:"job"`
	Replica        uint32   `json:"replica"`
	Process        uint32   `json:"process"`
	Node           string   `json:"node"`
	State          string   `json:"state"`
	Restarts       uint32   `json:"restarts"`
	GPUs           []uint32 `json:"gpus"`
	CPUPercent     *float64 `json:"cpu_percent"`
	MemoryBytes    *uint64  `json:"memory_bytes"`
	GPUMemoryBytes *uint64  `json:"gpu_memory_bytes"`
	GPUBusyPercent *uint32  `json:"gpu_busy_percent"`
}

// UsedSince returns what processes use, by what they had used before and have used now.
func UsedSince(before, now []*api.ProcessUsage) []Used {
	all := make([]Used, 0, len(now))
	for _, p := range now {
		u := Used{
			Launch: p.GetLaunch(), Number: p.GetNumber(), Name: p.GetName(), Owner: p.GetOwner(), Job: p.GetJob(),
			Replica: p.GetReplica(), Process: p.GetProcess(), Node: p.GetNode(), State: p.GetPhase(),
			Restarts: p.GetRestarts(), GPUs: append([]uint32{}, p.GetGpus()...), MemoryBytes: p.MemoryBytes,
			GPUMemoryBytes: p.GpuBytes, GPUBusyPercent: p.GpuBusyPercent,
		}
		i := slices.IndexFunc(before, func(b *api.ProcessUsage) bool { return sameProcess(b, p) })
		if i >= 0 {
			u.CPUPercent = cpuPercent(before[i], p)
		}
		all = append(all, u)
	}
	return all
}

// sameProcess reports whether two are of one start of a process.
func sameProcess(a, b *api.ProcessUsage) bool {
	return a.GetLaunch() == b.GetLaunch() && a.GetJob() == b.GetJob() && a.GetReplica() == b.GetReplica() &&
		a.GetProcess() == b.GetProcess() && a.GetAttempt() == b.GetAttempt()
}

// cpuPercent returns the share of one CPU between two looks; nil: it is not known.
func cpuPercent(before, now *api.ProcessUsage) *float64 {
	if before.CpuNs == nil || now.CpuNs == nil || now.GetAtNs() <= before.GetAtNs() {
		return nil
	}
	used := 0.0 // less is used than before where children have ended that only /proc has counted
	if now.GetCpuNs() > before.GetCpuNs() {
		used = float64(now.GetCpuNs() - before.GetCpuNs())
	}
	const percent = 100
	share := percent * used / float64(now.GetAtNs()-before.GetAtNs())
	return &share
}

// Usage prints a row for each process.
func Usage(to io.Writer, used []Used) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprint(out, "LAUNCH\tNAME\tPROCESS\tNODE\tSTATE\tRESTARTS\tCPU\tMEMORY\tGPUS\tGPU MEM\tGPU\n")
	for _, u := range used {
		process := fmt.Sprintf("%s.%d.%d", humanize.Shorten(u.Job, maxName), u.Replica, u.Process)
		cpu := "-"
		if u.CPUPercent != nil {
			cpu = fmt.Sprintf("%.0f%%", *u.CPUPercent)
		}
		busy := "-"
		if u.GPUBusyPercent != nil {
			busy = fmt.Sprintf("%d%%", *u.GPUBusyPercent)
		}
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s\t%s\n", u.Number, humanize.Shorten(u.Name, maxName),
			process, humanize.Shorten(u.Node, maxName), humanize.Shorten(u.State, maxName), u.Restarts, cpu,
			known(u.MemoryBytes), len(u.GPUs), known(u.GPUMemoryBytes), busy)
	}
	return out.Flush()
}

// known returns bytes, or a dash.
func known(bytes *uint64) string {
	if bytes == nil {
		return "-"
	}
	return humanize.Bytes(*bytes)
}

// Fit returns as much of a text as a screen has room for; the last row says how much is missing. 0
// rows or columns: there is no limit.
func Fit(text string, rows, columns int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if rows > 1 && len(lines) >= rows {
		left := len(lines) - (rows - 2)
		lines = append(lines[:rows-2], fmt.Sprintf("(%d more rows; phos top --once prints all)", left))
	}
	for i, line := range lines {
		if runes := []rune(line); columns > 0 && len(runes) > columns {
			lines[i] = string(runes[:columns])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
