package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/phos-gpu/phos/cli/wording"
)

// table writes the view for people.
func (v statusView) table(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "phosd %s, pid %d, up %s, %s\n", v.Daemon.Version, v.Daemon.PID,
		wording.Age(time.Duration(v.Daemon.UptimeSeconds)*time.Second), v.Daemon.Socket)
	for _, warning := range v.Daemon.Warnings {
		fmt.Fprintf(out, "warning: %s\n", warning)
	}
	fmt.Fprintf(out, "\nGPU\tNAME\tMEMORY\tPROGRAMS\n")
	for _, gpu := range v.GPUs {
		fmt.Fprintf(out, "%d\t%s\t%s / %s\t%d\n", gpu.Index, gpu.Name, wording.Bytes(gpu.UsedBytes), wording.Bytes(gpu.MemoryBytes), gpu.Programs)
	}
	if len(v.Programs) == 0 {
		fmt.Fprintf(out, "\nno programs\n")
		return out.Flush()
	}
	fmt.Fprintf(out, "\nPID\tJOB\tUSER\tGPU\tMEMORY\tCALLS\tCHECKPOINT\tAGE\tSTATE\n")
	for _, program := range v.Programs {
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", program.PID, wording.Shorten(program.Job, 24), program.User,
			gpusText(program.GPUs), wording.Bytes(program.MemoryBytes), program.CallsCompleted,
			program.checkpointText(), wording.Age(program.age), program.stateText())
	}
	lead := "\n"
	for _, program := range v.Programs {
		for _, text := range append([]string{program.Fault, program.JobFileError}, program.Checkpoint.texts()...) {
			if text != "" {
				fmt.Fprintf(out, "%spid %d: %s\n", lead, program.PID, text)
				lead = ""
			}
		}
	}
	return out.Flush()
}

func (p programView) checkpointText() string {
	switch {
	case p.Checkpoint.Running:
		return "now"
	case p.LastCheckpoint == nil:
		return "never"
	}
	return wording.Age(p.Checkpoint.age) + " ago"
}

// texts are what does not fit into the table.
func (s saveView) texts() []string {
	var where, failed, policy string
	if s.Generation != nil && s.Dir != "" {
		where = fmt.Sprintf("saved in %s, generation %d", s.Dir, *s.Generation)
	}
	if s.Error != "" {
		failed = fmt.Sprintf("checkpoint failed %s ago: %s", wording.Age(s.sinceFailed), s.Error)
	}
	if s.Policy != nil {
		policy = s.policyText()
	}
	return []string{where, failed, policy}
}

func (s saveView) policyText() string {
	text := "checkpoints"
	if s.Policy.EverySeconds > 0 {
		text += fmt.Sprintf(" every %s", time.Duration(s.Policy.EverySeconds*float64(time.Second)))
	}
	if len(s.Policy.On) > 0 {
		text += " on " + strings.Join(s.Policy.On, ", ")
	}
	text += " into " + s.Policy.Dir
	if s.Policy.Keep > 0 {
		text += fmt.Sprintf(", %d kept", s.Policy.Keep)
	}
	if s.Policy.BandwidthBytes > 0 {
		text += fmt.Sprintf(", at most %s a second", wording.Bytes(s.Policy.BandwidthBytes))
	}
	if s.Next != nil {
		text += fmt.Sprintf("; the next in %s", wording.Age(s.untilNext))
	}
	return text
}

// stateText adds what the program is waiting for, once that is worth a look.
func (p programView) stateText() string {
	const worthALook = 10_000
	if p.Pending == nil || p.Pending.Milliseconds < worthALook {
		return p.State
	}
	return fmt.Sprintf("%s, in %s for %s", p.State, p.Pending.Call, wording.Age(time.Duration(p.Pending.Milliseconds)*time.Millisecond))
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
