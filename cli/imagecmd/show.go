package imagecmd

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/cli/humanize"
)

// showView is what show --json prints. Scripts read it: fields may be added, never renamed or
// removed.
type showView struct {
	Dir        string   `json:"dir"`
	Store      string   `json:"store"`
	Format     int      `json:"format"`
	Generation uint64   `json:"generation"`
	Bytes      int      `json:"bytes"`
	Seal       sealView `json:"seal"`
	// Manifest is the image's own text, which may have fields that this pos_cli does not know.
	Manifest json.RawMessage `json:"manifest"`
}

type sealView struct {
	Version  int    `json:"version"`
	OwnerUID uint32 `json:"owner_uid"`
	Key      string `json:"key"`
}

// Show prints one generation of an image; 0 is the newest.
func Show(out Output, path string, n uint64) error {
	d, err := openImage(path)
	if err != nil {
		return err
	}
	defer d.Close()
	g, err := readGeneration(d, n)
	if err != nil {
		return err
	}
	if out.JSON {
		return out.json(showView{
			Dir: path, Store: d.Store().String(), Format: image.Version, Generation: g.number, Bytes: len(g.text),
			Seal: sealView{image.Version, g.seal.OwnerUID, g.seal.Key.String()}, Manifest: g.text,
		})
	}
	to := out.table()
	fmt.Fprintf(to, "generation %d of %s\n\n", g.number, humanize.Printable(path))
	showGeneral(to, g)
	showProcesses(to, g.manifest)
	showEndpoints(to, g.manifest.Endpoints)
	showFiles(to, g.manifest.Files)
	return to.Flush()
}

// showGeneral prints state, origin, owner, seal and sizes of a generation.
func showGeneral(to io.Writer, g generation) {
	m := g.manifest
	whole := "complete; to see whether it can be restored here: pos_cli image check"
	if m.Partial() {
		whole = "partial: only " + humanize.Printable(strings.Join(m.Kinds, ", ")) + "; it cannot be restored"
	}
	fmt.Fprintf(to, "state\t%s\n", whole)
	fmt.Fprintf(
		to,
		"created\t%s, %s ago, by phos %s\n",
		m.Created.Local().Format(time.DateTime),
		humanize.Age(now().Sub(m.Created)),
		humanize.Printable(m.Phos),
	)
	fmt.Fprintf(
		to,
		"machine\t%s, %s, kernel %s\n",
		humanize.Printable(m.Host.Name),
		humanize.Printable(m.Host.Arch),
		humanize.Printable(m.Host.Kernel),
	)
	owner := fmt.Sprintf("uid %d, gid %d", m.Owner.UID, m.Owner.GID)
	if m.Owner.Name != "" {
		owner = humanize.Printable(m.Owner.Name) + " (" + owner + ")"
	}
	fmt.Fprintf(to, "user\t%s\n", owner)
	if m.Group != "" {
		fmt.Fprintf(to, "group\t%s\n", humanize.Printable(m.Group))
	}
	fmt.Fprintf(to, "sealed\tby key %s for uid %d\n", g.seal.Key, g.seal.OwnerUID)
	fmt.Fprintf(to, "pause\t%s\n", humanize.Microseconds(m.Stats.PauseMicroseconds))
	if spent := m.Stats.PausedMicroseconds; len(spent) > 0 {
		fmt.Fprintf(to, "\t%s\n", humanize.Pause(m.Stats.PauseMicroseconds, spent))
	}
	fmt.Fprintf(
		to,
		"written\t%s, and %s shared with older generations\n",
		humanize.Bytes(m.Stats.WrittenBytes),
		humanize.Bytes(m.Stats.SharedBytes),
	)
	if m.CPU.Tree != "" {
		by := ""
		if m.CPU.CRIU != "" { // missing in some images
			by = ", by CRIU " + humanize.Printable(m.CPU.CRIU)
		}
		fmt.Fprintf(to, "cpu half\t%s%s\n", humanize.Bytes(m.CPU.Bytes), by)
	}
}

// showProcesses prints a row for each process, then the number of objects of each kind.
func showProcesses(to *tabwriter.Writer, m *image.Manifest) {
	fmt.Fprintf(to, "\nPID\tPARENT\tTHREADS\tCOMMAND\tGPU MEMORY\tPINNED\tGPUS\tJOB\n")
	for _, p := range m.Processes {
		memory, pinned, gpus, job := "-", "-", "-", "-"
		if p.GPU != nil {
			memory, pinned = humanize.Bytes(p.GPU.MemoryBytes), humanize.Bytes(p.GPU.PinnedBytes)
			job = humanize.Shorten(p.GPU.Job, 24)
			gpus = gpusText(p.GPU.Devices)
		}
		fmt.Fprintf(
			to,
			"%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n",
			p.PID,
			p.Parent,
			p.Threads,
			humanize.Shorten(p.Command, 40),
			memory,
			pinned,
			gpus,
			job,
		)
	}
	for _, p := range m.Processes {
		if p.GPU == nil || len(p.GPU.Objects) == 0 {
			continue
		}
		fmt.Fprintf(to, "pid %d has", p.PID)
		for i, kind := range slices.Sorted(maps.Keys(p.GPU.Objects)) {
			if i > 0 {
				fmt.Fprint(to, ",")
			}
			fmt.Fprintf(to, " %s: %d", humanize.Printable(kind), p.GPU.Objects[kind])
		}
		fmt.Fprintln(to)
	}
}

// gpusText counts the GPUs that a process saw, by model.
func gpusText(devices []image.Device) string {
	var texts []string
	for i := 0; i < len(devices); {
		same := i
		for same < len(devices) && devices[same].Name == devices[i].Name &&
			devices[same].MemoryBytes == devices[i].MemoryBytes {
			same++
		}
		texts = append(
			texts,
			fmt.Sprintf(
				"%d × %s, %s, %s",
				same-i,
				humanize.Shorten(devices[i].Name, 32),
				humanize.Bytes(devices[i].MemoryBytes),
				humanize.Printable(devices[i].Capability),
			),
		)
		i = same
	}
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, "; ")
}

// showEndpoints prints the terminals, pipes and sockets that a restore connects.
func showEndpoints(to io.Writer, ends []image.Endpoint) {
	if len(ends) == 0 {
		return
	}
	fmt.Fprintf(to, "\nENDPOINT\tKIND\tOPEN AS\n")
	for _, end := range ends {
		as := strings.Join(end.Descriptors, ", ")
		if end.Standard >= 0 {
			as = fmt.Sprintf("standard %d of the root (%s)", end.Standard, as)
		}
		fmt.Fprintf(
			to,
			"%s\t%s\t%s\n",
			humanize.Shorten(end.Key, 40),
			humanize.Printable(end.Kind),
			humanize.Shorten(as, 100),
		)
	}
}

// showFiles prints the saved files, and what a restore does with them.
func showFiles(to io.Writer, files []image.SavedFile) {
	if len(files) == 0 {
		return
	}
	fmt.Fprintf(to, "\nFILE\tSIZE\tAT A RESTORE\n")
	for _, file := range files {
		action := "its content is restored"
		switch {
		case file.Library:
			action = "exactly this content is used"
		case file.Hash == "":
			action = "must exist; is truncated to this length"
		}
		fmt.Fprintf(to, "%s\t%s\t%s\n", humanize.Printable(file.Path), humanize.Bytes(file.Bytes), action)
	}
}
