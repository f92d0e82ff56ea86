package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// table writes the view for people.
func (v statusView) table(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "phosd %s, pid %d, up %s, %s\n", v.Daemon.Version, v.Daemon.PID,
		ageText(time.Duration(v.Daemon.UptimeSeconds)*time.Second), v.Daemon.Socket)
	for _, warning := range v.Daemon.Warnings {
		fmt.Fprintf(out, "warning: %s\n", warning)
	}
	fmt.Fprintf(out, "\nGPU\tNAME\tMEMORY\tPROGRAMS\n")
	for _, gpu := range v.GPUs {
		fmt.Fprintf(out, "%d\t%s\t%s / %s\t%d\n", gpu.Index, gpu.Name, bytesText(gpu.UsedBytes), bytesText(gpu.MemoryBytes), gpu.Programs)
	}
	if len(v.Programs) == 0 {
		fmt.Fprintf(out, "\nno programs\n")
		return out.Flush()
	}
	fmt.Fprintf(out, "\nPID\tJOB\tUSER\tGPU\tMEMORY\tCALLS\tCHECKPOINT\tAGE\tSTATE\n")
	for _, program := range v.Programs {
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", program.PID, shorten(program.Job, 24), program.User,
			gpusText(program.GPUs), bytesText(program.MemoryBytes), program.CallsCompleted,
			program.checkpointText(), ageText(program.age), program.stateText())
	}
	lead := "\n"
	for _, program := range v.Programs {
		for _, wrong := range []string{program.Fault, program.JobFileError} {
			if wrong != "" {
				fmt.Fprintf(out, "%spid %d: %s\n", lead, program.PID, wrong)
				lead = ""
			}
		}
	}
	return out.Flush()
}

func (p programView) checkpointText() string {
	if p.LastCheckpoint == nil {
		return "never"
	}
	return p.LastCheckpoint.Local().Format(time.DateTime)
}

// stateText adds what the program is waiting for, once that is worth a look.
func (p programView) stateText() string {
	const worthALook = 10_000
	if p.Pending == nil || p.Pending.Milliseconds < worthALook {
		return p.State
	}
	return fmt.Sprintf("%s, in %s for %s", p.State, p.Pending.Call, ageText(time.Duration(p.Pending.Milliseconds)*time.Millisecond))
}

func gpusText(gpus []uint32) string {
	if len(gpus) == 0 {
		return "-"
	}
	texts := make([]string, len(gpus))
	for i, gpu := range gpus {
		texts[i] = strconv.Itoa(int(gpu))
	}
	return strings.Join(texts, ",")
}

// bytesText is a size with three digits that matter.
func bytesText(bytes uint64) string {
	value, unit := float64(bytes), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 || value == float64(int64(value)) {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.3g %s", value, units[unit])
}

// ageText is a duration in its two largest units.
func ageText(age time.Duration) string {
	age = max(age, 0).Truncate(time.Second)
	days, hours, minutes, seconds := int(age.Hours())/24, int(age.Hours())%24, int(age.Minutes())%60, int(age.Seconds())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%02dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}

func shorten(text string, runes int) string {
	if short := []rune(text); len(short) > runes {
		return string(short[:runes-1]) + "…"
	}
	if text == "" {
		return "-"
	}
	return text
}
