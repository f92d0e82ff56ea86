package imagecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/daemon/api"
)

// ErrNotSearched is returned if a named directory could not be searched.
var ErrNotSearched = errors.New("not all directories were searched")

// imageView is one image in what images --json prints. Scripts read it: fields may be added, never
// renamed or removed.
type imageView struct {
	Dir      string  `json:"dir"`
	Owner    string  `json:"owner"`
	OwnerUID *uint32 `json:"owner_uid"`
	Host     string  `json:"host"`
	PID      int     `json:"pid"`
	Command  string  `json:"command"`
	// Job is the name of the first job that uses a GPU; it may be empty.
	Job         string     `json:"job"`
	Created     *time.Time `json:"created"`
	Generations []uint64   `json:"generations"`
	Bytes       uint64     `json:"bytes"`
	// Restorable is nil if phosd was not asked.
	Restorable *bool `json:"restorable"`
	// NewPIDs means that a restore takes --new-pids.
	NewPIDs bool `json:"new_pids"`
	// Reason says why the newest generation cannot be restored, or read; it may be empty.
	Reason string `json:"reason"`

	user string
}

// Images lists the images below the named directories, and those that phosd knows of. It reads
// directories with the caller's rights only.
func Images(ctx context.Context, out Output, named []string) error {
	known, err := fetchStatus(ctx)
	switch {
	case err != nil && len(named) == 0:
		return err
	case err != nil && !out.JSON:
		fmt.Fprintf(out.Err, "%v; only the named directories are searched\n", err)
	}
	s := search{ctx: ctx, seen: make(map[fileID]bool)}
	var failed error
	for _, dir := range named {
		if err := s.below(dir, unlimited); err != nil {
			fmt.Fprintf(out.Err, "%v\n", err)
			failed = ErrNotSearched
		}
	}
	for _, place := range knownPlaces(known) {
		_ = s.below(place.dir, place.depth) // it may be gone, or another user's
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cancelled: %w", err)
	}
	views := make([]imageView, 0, len(s.found))
	for _, dir := range s.found {
		if view, err := newImageView(dir); !errors.Is(err, store.ErrNoImage) {
			views = append(views, view)
		}
	}
	if known != nil {
		for i := range views {
			views[i].check(ctx)
		}
	}
	slices.SortStableFunc(views, newestFirst)
	if out.JSON {
		err = out.json(views)
	} else {
		err = imagesTable(out, views)
	}
	if err != nil {
		return err
	}
	return failed
}

// fetchStatus asks phosd for its status.
func fetchStatus(ctx context.Context) (*api.StatusReply, error) {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	reply, err := client.Daemon.Status(ctx, &api.StatusRequest{})
	if err != nil {
		return nil, api.FromStatus(err)
	}
	return reply, nil
}

// newestFirst orders images by the time of their newest generation; unreadable ones come last.
func newestFirst(a, b imageView) int {
	at := func(v imageView) int64 {
		if v.Created == nil {
			return 0
		}
		return v.Created.UnixNano()
	}
	return cmp.Or(cmp.Compare(at(b), at(a)), cmp.Compare(a.Dir, b.Dir))
}

// newImageView reads the newest generation of an image. An image that cannot be read has a reason.
func newImageView(dir string) (imageView, error) {
	v := imageView{Dir: dir, Generations: []uint64{}}
	d, err := openImage(dir)
	if err != nil {
		v.Reason = err.Error()
		return v, err
	}
	defer d.Close()
	if _, v.Bytes, err = d.DiskSize(); err != nil {
		v.Reason = err.Error()
	}
	all, err := d.Generations()
	if err != nil || len(all) == 0 {
		v.Reason = "it has no generation"
		if err != nil {
			v.Reason = err.Error()
		}
		return v, nil
	}
	v.Generations = all
	g, err := readGeneration(d, all[len(all)-1])
	if err != nil {
		v.Reason = err.Error()
		return v, nil
	}
	row := newRowView(g.manifest)
	v.Owner, v.OwnerUID, v.user, v.Host = row.Owner, &row.OwnerUID, row.user, row.Host
	v.PID, v.Command, v.Job, v.Created = row.PID, row.Command, row.Job, &row.Created
	return v, nil
}

// check asks phosd whether the newest generation can be restored here, and if not, whether it can
// with --new-pids.
func (v *imageView) check(ctx context.Context) {
	if v.Created == nil {
		no := false
		v.Restorable = &no
		return
	}
	checked, err := checkOf(ctx, v.Dir, CheckOptions{})
	if err != nil {
		v.Reason = err.Error()
		return
	}
	restorable := checked.Restorable
	if !restorable {
		v.Reason = firstReason(checked.Obstacles)
		other, err := checkOf(ctx, v.Dir, CheckOptions{NewPIDs: true})
		if err == nil && other.Restorable {
			restorable, v.NewPIDs, v.Reason = true, true, ""
		}
	}
	v.Restorable = &restorable
}

// firstReason returns the first obstacle that prevents a restore.
func firstReason(all []obstacleView) string {
	for _, o := range all {
		if !o.Harmless {
			return o.Subject + ": " + o.Reason
		}
	}
	return ""
}

// imagesTable prints a row for each image, then why some cannot be restored.
func imagesTable(out Output, views []imageView) error {
	to := out.table()
	if len(views) == 0 {
		fmt.Fprintln(to, "no images")
		return to.Flush()
	}
	fmt.Fprintf(to, "IMAGE\tUSER\tPROGRAM\tGENERATIONS\tSIZE\tAGE\tRESTORE\n")
	for i := range views {
		v := &views[i]
		age, user := "-", "-"
		if v.Created != nil {
			age, user = humanize.Age(now().Sub(*v.Created)), v.user
		}
		fmt.Fprintf(
			to,
			"%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
			humanize.Printable(v.Dir),
			user,
			humanize.Shorten(cmp.Or(v.Job, v.Command), 40),
			len(v.Generations),
			humanize.Bytes(v.Bytes),
			age,
			v.restoreText(),
		)
	}
	lead := "\n"
	for i := range views {
		if v := &views[i]; v.Reason != "" {
			fmt.Fprintf(to, "%s%s: %s\n", lead, humanize.Printable(v.Dir), humanize.Printable(v.Reason))
			lead = ""
		}
	}
	return to.Flush()
}

// restoreText says whether the image can be restored here.
func (v *imageView) restoreText() string {
	switch {
	case v.Restorable == nil:
		return "-"
	case !*v.Restorable:
		return "no"
	case v.NewPIDs:
		return "--new-pids"
	}
	return "yes"
}

// hasEnded reports whether a program of the status has ended. phosd lists it until its worker has
// ended too.
func hasEnded(p *api.Program) bool {
	return p.GetPid() != 0 && errors.Is(unix.Kill(int(p.GetPid()), 0), unix.ESRCH)
}

// checkUnused returns an error if a running program of the caller was last saved in a directory, or
// if its policy saves it there. Without a phosd no program runs under phos that it could save.
func checkUnused(ctx context.Context, dir *os.File) error {
	status, err := fetchStatus(ctx)
	if err != nil {
		return nil //nolint:nilerr // the image can be removed without phosd
	}
	here, err := dir.Stat()
	if err != nil {
		return err
	}
	for _, p := range status.GetPrograms() {
		for _, used := range []struct{ path, text string }{
			{p.GetCheckpointDir(), "was last saved there"},
			{policyPlace(p, status.GetDaemon().GetCheckpointDir()), "is saved there by its policy"},
		} {
			info, err := os.Stat(used.path)
			if used.path == "" || err != nil || !os.SameFile(here, info) || hasEnded(p) {
				continue
			}
			return fmt.Errorf(
				"remove image %s: pid %d (%s) runs and %s; --force removes it all the same",
				dir.Name(), p.GetPid(), humanize.Shorten(p.GetCommand(), 40), used.text,
			)
		}
	}
	return nil
}
