package imagecmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
)

// listView is what list --json prints. Scripts read it: fields may be added, never renamed or
// removed.
type listView struct {
	Dir    string `json:"dir"`
	Store  string `json:"store"`
	Format int    `json:"format"`
	Packs  int    `json:"packs"`
	Bytes  uint64 `json:"bytes"`
	// NeededBytes is nil if data of a generation is missing.
	NeededBytes *uint64   `json:"needed_bytes"`
	Generations []rowView `json:"generations"`
}

// rowView is one generation.
type rowView struct {
	Generation uint64    `json:"generation"`
	Created    time.Time `json:"created"`
	Phos       string    `json:"phos"`
	Host       string    `json:"host"`
	OwnerUID   uint32    `json:"owner_uid"`
	Owner      string    `json:"owner"`
	PID        int       `json:"pid"`
	Command    string    `json:"command"`
	// Job is the name of the first job that uses a GPU; it may be empty.
	Job               string   `json:"job"`
	Processes         int      `json:"processes"`
	GPUProcesses      int      `json:"gpu_processes"`
	MemoryBytes       uint64   `json:"memory_bytes"`
	PinnedBytes       uint64   `json:"pinned_bytes"`
	CPUBytes          uint64   `json:"cpu_bytes"`
	WrittenBytes      uint64   `json:"written_bytes"`
	SharedBytes       uint64   `json:"shared_bytes"`
	PauseMicroseconds uint64   `json:"pause_microseconds"`
	Kinds             []string `json:"kinds"`
	Group             string   `json:"group"`
	Damage            string   `json:"damage"`

	user string
}

// List prints the generations of an image.
func List(out Output, path string) error {
	d, err := openImage(path)
	if err != nil {
		return err
	}
	defer d.Close()
	view, err := newListView(d)
	if err != nil {
		return err
	}
	view.Dir = path
	if out.JSON {
		return out.json(view)
	}
	return view.table(out)
}

// newListView reads all generations. One that cannot be read becomes a damaged row.
func newListView(d *store.Dir) (*listView, error) {
	all, err := d.Generations()
	if err != nil {
		return nil, err
	}
	v := &listView{Store: d.Store().String(), Format: image.Version, Generations: []rowView{}}
	for _, n := range all {
		g, err := readGeneration(d, n)
		if err != nil {
			v.Generations = append(v.Generations, rowView{Generation: n, Kinds: []string{}, Damage: err.Error()})
			continue
		}
		v.Generations = append(v.Generations, newRowView(g.manifest))
	}
	packs, bytes, needed, err := d.Sizes(context.Background())
	if err == nil {
		v.Packs, v.Bytes, v.NeededBytes = packs, bytes, &needed
		return v, nil
	}
	v.Packs, v.Bytes, err = d.DiskSize()
	return v, err
}

// newRowView sums the sizes of all processes; PID and command are the first one's.
func newRowView(m *image.Manifest) rowView {
	row := rowView{
		Generation: m.Generation, Created: m.Created.UTC(), Phos: m.Phos, Host: m.Host.Name,
		OwnerUID: m.Owner.UID, Owner: m.Owner.Name,
		Processes: len(m.Processes), CPUBytes: m.CPU.Bytes, WrittenBytes: m.Stats.WrittenBytes,
		SharedBytes: m.Stats.SharedBytes, PauseMicroseconds: m.Stats.PauseMicroseconds,
		Kinds: append([]string{}, m.Kinds...), Group: m.Group, user: userText(m.Owner),
	}
	for i, process := range m.Processes {
		if i == 0 {
			row.PID, row.Command = process.PID, process.Command
		}
		if process.GPU != nil {
			row.GPUProcesses++
			row.Job = cmp.Or(row.Job, process.GPU.Job)
			row.MemoryBytes += process.GPU.MemoryBytes
			row.PinnedBytes += process.GPU.PinnedBytes
		}
	}
	return row
}

// table prints a row for each generation, then the sizes on disk, then the damage.
func (v *listView) table(out Output) error {
	to := out.table()
	if len(v.Generations) == 0 {
		fmt.Fprintf(to, "%s: the image has no generation yet\n", humanize.Printable(v.Dir))
		return to.Flush()
	}
	fmt.Fprintf(to, "GENERATION\tCREATED\tAGE\tPROGRAM\tPROCESSES\tUSER\tGPU\tCPU\tWRITTEN\tSHARED\tPAUSE\tSTATE\n")
	for _, row := range v.Generations {
		if row.Damage != "" {
			fmt.Fprintf(to, "%d\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\tdamaged\n", row.Generation)
			continue
		}
		fmt.Fprintf(
			to,
			"%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			row.Generation,
			row.Created.Local().Format(time.DateTime),
			humanize.Age(now().Sub(row.Created)),
			humanize.Shorten(cmp.Or(row.Job, row.Command), 24),
			row.Processes,
			row.user,
			humanize.Bytes(
				row.MemoryBytes+row.PinnedBytes,
			),
			humanize.Bytes(row.CPUBytes),
			humanize.Bytes(row.WrittenBytes),
			humanize.Bytes(row.SharedBytes),
			humanize.Microseconds(row.PauseMicroseconds),
			row.state(),
		)
	}
	fmt.Fprintf(to, "\n%s: %s, %s on the disk", v.Dir, humanize.Count(v.Packs, "pack", "packs"), humanize.Bytes(v.Bytes))
	if v.NeededBytes == nil {
		fmt.Fprintf(to, "; data is missing or damaged: pos_cli image verify %s\n", humanize.Printable(v.Dir))
	} else if *v.NeededBytes > v.Bytes {
		// Files with holes, as after a sparse copy.
		fmt.Fprintf(to, "; the generations have %s, part of it in holes of files\n", humanize.Bytes(*v.NeededBytes))
	} else {
		fmt.Fprintf(to, ", of which the generations need %s\n", humanize.Bytes(*v.NeededBytes))
	}
	for _, row := range v.Generations {
		if row.Damage != "" {
			fmt.Fprintf(to, "%s\n", humanize.Printable(row.Damage))
		}
	}
	return to.Flush()
}

// state says whether the generation can be restored, as far as the manifest shows.
func (r rowView) state() string {
	text := "complete"
	if len(r.Kinds) > 0 {
		text = "partial"
	}
	if r.Group != "" {
		text += ", group " + humanize.Shorten(r.Group, 24)
	}
	return strings.TrimSpace(text)
}
