package status

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
)

// Table prints the view for people.
func (v View) Table(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "phosd %s, pid %d, up %s, %s\n", v.Daemon.Version, v.Daemon.PID,
		humanize.Age(time.Duration(v.Daemon.UptimeSeconds)*time.Second), v.Daemon.Socket)
	for _, warning := range v.Daemon.Warnings {
		fmt.Fprintf(out, "warning: %s\n", warning)
	}
	if v.Daemon.StandbyWorkers > 0 {
		fmt.Fprintf(out, "%s\n", v.Daemon.standbyText())
	}
	v.gpuTable(out)
	if len(v.Programs) == 0 {
		fmt.Fprintf(out, "\n%s\n", v.noProgramsText())
		v.limitTable(out)
		v.bootRestoreLines(out)
		return out.Flush()
	}
	fmt.Fprintf(out, "\nPID\tJOB\tUSER\tGPU\tMEMORY\tCALLS\tCHECKPOINT\tAGE\tSTATE\n")
	for _, program := range v.Programs {
		fmt.Fprintf(
			out,
			"%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
			program.PID,
			humanize.Shorten(program.Job, 24),
			program.User,
			numbersText(program.GPUs),
			humanize.Bytes(program.MemoryBytes),
			program.CallsCompleted,
			program.checkpointText(),
			humanize.Age(program.age),
			program.stateText(),
		)
	}
	v.limitTable(out)
	v.bootRestoreLines(out)
	lead := "\n"
	for _, program := range v.Programs {
		for _, text := range append([]string{program.Fault, program.JobFileError}, program.Checkpoint.texts()...) {
			if text != "" {
				fmt.Fprintf(out, "%spid %d: %s\n", lead, program.PID, humanize.Kernels(text))
				lead = ""
			}
		}
	}
	return out.Flush()
}

// noProgramsText tells a machine without programs from one on which only other users have some.
func (v View) noProgramsText() string {
	if slices.ContainsFunc(v.GPUs, func(g gpuView) bool { return int(g.Programs) > len(g.PIDs) }) {
		return "no programs of yours"
	}
	return "no programs"
}

// limitTable prints what users hold of what they share. What is not in use, or not limited, is in
// the JSON only.
func (v View) limitTable(out io.Writer) {
	lead := "\nUSER\tLIMIT\tUSED\tOF\n"
	for _, limit := range v.Limits {
		if limit.Used == 0 || limit.Limit == nil {
			continue
		}
		used, of := strconv.FormatUint(limit.Used, 10), strconv.FormatUint(*limit.Limit, 10)
		if limit.Bytes {
			used, of = humanize.Bytes(limit.Used), humanize.Bytes(*limit.Limit)
		}
		fmt.Fprintf(out, "%s%s\t%s (%s)\t%s\t%s\n", lead, limit.User, limit.Key, limit.What, used, of)
		lead = ""
	}
}

// bootRestoreLines prints what became of the programs to restore since the machine's restart.
func (v View) bootRestoreLines(out io.Writer) {
	lead := "\n"
	for _, each := range v.BootRestores {
		fmt.Fprint(out, lead, each.text(), "\n")
		lead = ""
	}
}

// text describes the restore of a program after a restart of the machine.
func (b bootRestoreView) text() string {
	switch {
	case b.PID != nil:
		return fmt.Sprintf("pid %d: restored after the machine's restart from %s", *b.PID, b.Dir)
	case b.State == "failed":
		return fmt.Sprintf("not restored after the machine's restart: %s: %s", b.Dir, b.Error)
	case b.Error != "":
		return fmt.Sprintf("restore after the machine's restart is tried again: %s: %s", b.Dir, b.Error)
	}
	return "to be restored after the machine's restart: " + b.Dir
}

// standbyText describes the standby workers: "2 standby workers hold 512 MiB of GPU 0".
func (d daemonView) standbyText() string {
	text, holds := fmt.Sprintf("%d standby workers", d.StandbyWorkers), " hold "
	if d.StandbyWorkers == 1 {
		text, holds = "1 standby worker", " holds "
	}
	var held []string
	for gpu, bytes := range d.StandbyBytes {
		if bytes > 0 {
			held = append(held, fmt.Sprintf("%s of GPU %d", humanize.Bytes(bytes), gpu))
		}
	}
	if len(held) == 0 {
		return text
	}
	return text + holds + strings.Join(held, ", ")
}

// gpuTable prints a line for each GPU, with more columns for real GPUs.
func (v View) gpuTable(out io.Writer) {
	switch {
	case slices.ContainsFunc(v.Daemon.Warnings, func(w string) bool {
		return v.Daemon.DriverError != "" && strings.HasSuffix(w, v.Daemon.DriverError)
	}): // printed above
	case v.Daemon.DriverError != "":
		fmt.Fprintf(out, "warning: no data from the driver: %s\n", v.Daemon.DriverError)
	case v.Daemon.DriverVersion != "":
		fmt.Fprintf(out, "driver %s, CUDA %s\n", v.Daemon.DriverVersion, v.Daemon.CUDAVersion)
	}
	if !slices.ContainsFunc(v.GPUs, func(g gpuView) bool { return g.Hardware != nil }) {
		fmt.Fprintf(out, "\nGPU\tNAME\tMEMORY\tPROGRAMS\n")
		for _, gpu := range v.GPUs {
			fmt.Fprintf(
				out,
				"%d\t%s\t%s\t%d\n",
				gpu.Index,
				gpu.Name,
				usageText(gpu.UsedBytes, gpu.MemoryBytes),
				gpu.Programs,
			)
		}
		return
	}
	fmt.Fprintf(out, "\nGPU\tNAME\tBUS ID\tMEMORY\tOURS\tUSE\tTEMP\tPOWER\tPROGRAMS\tSTATE\n")
	for _, gpu := range v.GPUs {
		hardware := gpu.Hardware
		if hardware == nil {
			hardware = &hardwareView{State: "unknown"}
		}
		fmt.Fprintf(
			out,
			"%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			gpu.Index,
			gpu.Name,
			orDash(hardware.BusID),
			hardware.memoryText(),
			humanize.Bytes(
				gpu.UsedBytes,
			),
			numberText(hardware.BusyPercent, " %%"),
			numberText(hardware.Temperature, " C"),
			hardware.powerText(),
			gpu.programsText(),
			hardware.State,
		)
	}
	v.foreignTable(out)
	lead := "\n"
	for _, gpu := range v.GPUs {
		for _, text := range gpu.Hardware.texts() {
			fmt.Fprintf(out, "%sGPU %d: %s\n", lead, gpu.Index, text)
			lead = ""
		}
	}
}

// foreignTable lists processes on the GPUs that do not run through phos.
func (v View) foreignTable(out io.Writer) {
	lead := "\nGPU\tOTHER PID\tMEMORY\tUSER\tCOMMAND\n"
	for _, gpu := range v.GPUs {
		if gpu.Hardware == nil {
			continue
		}
		for _, p := range gpu.Hardware.Foreign {
			held := "-"
			if p.UsedBytes != nil {
				held = humanize.Bytes(*p.UsedBytes)
			}
			fmt.Fprintf(
				out,
				"%s%d\t%d\t%s\t%s\t%s\n",
				lead,
				gpu.Index,
				p.PID,
				held,
				orDash(p.User),
				humanize.Shorten(orDash(p.Command), 48),
			)
			lead = ""
		}
	}
}

func usageText(used, of uint64) string { return humanize.Bytes(used) + " / " + humanize.Bytes(of) }

// orDash returns the text, or a dash for an empty cell.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// numberText returns a dash for an unknown value. In unit, %% is a percent sign.
func numberText(value *uint32, unit string) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprintf("%d"+unit, *value)
}

// memoryText returns used and total memory, or a dash if NVML did not report them.
func (v *hardwareView) memoryText() string {
	if v.UsedBytes == nil || v.MemoryBytes == nil {
		return "-"
	}
	return usageText(*v.UsedBytes, *v.MemoryBytes)
}

// powerText returns the power and its limit in watts, or a dash if NVML did not report it.
func (v *hardwareView) powerText() string {
	const milli = 1000
	switch {
	case v.PowerMilliwatts == nil:
		return "-"
	case v.PowerLimit == nil:
		return fmt.Sprintf("%d W", *v.PowerMilliwatts/milli)
	}
	return fmt.Sprintf("%d / %d W", *v.PowerMilliwatts/milli, *v.PowerLimit/milli)
}

// programsText lists the caller's programs, and counts those of other users.
func (g gpuView) programsText() string {
	text := numbersText(g.PIDs)
	if others := int(g.Programs) - len(g.PIDs); others > 0 {
		text += fmt.Sprintf(" and %d more", others)
	}
	return text
}

// texts says why the GPU is lost, and what its last event was.
func (v *hardwareView) texts() (texts []string) {
	if v == nil {
		return nil
	}
	if v.Lost != "" {
		texts = append(texts, v.Lost)
	}
	if n := len(v.Events); n > 0 {
		last := v.Events[n-1]
		texts = append(texts, fmt.Sprintf("%s ago: %s", humanize.Age(last.age), last.Text))
	}
	if v.UncorrectedErrors != nil && *v.UncorrectedErrors > 0 {
		texts = append(
			texts,
			fmt.Sprintf("%d uncorrected memory errors since the driver was loaded", *v.UncorrectedErrors),
		)
	}
	return texts
}

// checkpointText returns the age of the last checkpoint, or now or never.
func (p programView) checkpointText() string {
	switch {
	case p.Checkpoint.Running:
		return "now"
	case p.LastCheckpoint == nil:
		return "never"
	}
	return humanize.Age(p.Checkpoint.age) + " ago"
}

// texts returns the lines below the table.
func (s checkpointView) texts() []string {
	var where, failed, policy string
	if s.Generation != nil && s.Dir != "" {
		where = fmt.Sprintf("saved in %s, generation %d", s.Dir, *s.Generation)
	}
	if s.Error != "" {
		failed = fmt.Sprintf("checkpoint failed %s ago: %s", humanize.Age(s.sinceFailed), s.Error)
	}
	if s.Policy != nil {
		policy = s.policyText()
	}
	return []string{where, failed, policy}
}

// policyText returns the policy of a program's checkpoints in words.
func (s checkpointView) policyText() string {
	text := "checkpoints"
	if s.Policy.EverySeconds > 0 {
		text += fmt.Sprintf(" every %s", time.Duration(s.Policy.EverySeconds*float64(time.Second)))
	}
	if len(s.Policy.On) > 0 {
		text += " on " + strings.Join(s.Policy.On, ", ")
	}
	text += " into " + s.Policy.Dir
	if s.Policy.RestoreOnBoot {
		text += ", restored on boot"
	}
	if s.Policy.Keep > 0 {
		text += fmt.Sprintf(", %d kept", s.Policy.Keep)
	}
	if s.Policy.BandwidthBytes > 0 {
		text += fmt.Sprintf(", at most %s a second", humanize.Bytes(s.Policy.BandwidthBytes))
	}
	if s.Next != nil {
		text += fmt.Sprintf("; the next in %s", humanize.Age(s.untilNext))
	}
	return text
}

// stateText adds a call that has been pending for long.
func (p programView) stateText() string {
	const longMilliseconds = 10_000
	if p.Pending == nil || p.Pending.Milliseconds < longMilliseconds {
		return p.State
	}
	return fmt.Sprintf(
		"%s, in %s for %s",
		p.State,
		p.Pending.Call,
		humanize.Age(time.Duration(p.Pending.Milliseconds)*time.Millisecond),
	)
}

// numbersText formats a list of GPUs or pids.
func numbersText(numbers []uint32) string {
	if len(numbers) == 0 {
		return "-"
	}
	texts := make([]string, len(numbers))
	for i, number := range numbers {
		texts[i] = strconv.Itoa(int(number))
	}
	return strings.Join(texts, ",")
}
