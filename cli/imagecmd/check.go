package imagecmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// ErrObstacles is returned if an image cannot be restored here.
var ErrObstacles = errors.New("it cannot be restored here")

// CheckOptions describe the restore to check.
type CheckOptions struct {
	Generation uint64
	NewPIDs    bool
	// TrustSeal is as in a restore.
	TrustSeal bool
	// Files is the value of --files of the restore.
	Files string
	// GPUs is the value of --gpus of the restore.
	GPUs string
}

// unread says what a check does not do.
const unread = "; its contents were not read (pos_cli image verify reads them)"

// checkView is what check --json prints. Scripts read it: fields may be added, never renamed or
// removed.
type checkView struct {
	Dir        string         `json:"dir"`
	Generation uint64         `json:"generation"`
	Restorable bool           `json:"restorable"`
	Obstacles  []obstacleView `json:"obstacles"`
	// Files are those that the program had open for writing.
	Files []fileView `json:"files"`
}

// fileView is what a restore does with a file.
type fileView struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	Action string `json:"action"`
	Reason string `json:"reason"`
	text   string
}

type obstacleView struct {
	Subject  string `json:"subject"`
	Reason   string `json:"reason"`
	Remedy   string `json:"remedy"`
	Harmless bool   `json:"harmless"`
}

// Check asks phosd for the obstacles to a restore, and prints them.
func Check(ctx context.Context, out Output, path string, options CheckOptions) error {
	view, err := checkOf(ctx, path, options)
	if err != nil {
		return err
	}
	if out.JSON {
		err = out.json(view)
	} else {
		err = view.text(out)
	}
	if err == nil && !view.Restorable {
		err = fmt.Errorf("%s, generation %d: %w", path, view.Generation, ErrObstacles)
	}
	return err
}

func checkOf(ctx context.Context, path string, options CheckOptions) (*checkView, error) {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	dir, err := OpenDirectory(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	d, err := openImage(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	view := &checkView{
		Dir: path, Generation: options.Generation, Restorable: true, Obstacles: []obstacleView{},
		Files: []fileView{},
	}
	if view.Generation == 0 {
		// Fix the generation now: another one may be added before phosd opens the image.
		if view.Generation, err = d.Newest(); err != nil {
			return nil, err
		}
	}
	gpus, err := launch.Ordinals(ctx, client, options.GPUs)
	if err != nil {
		return nil, err
	}
	token, err := fdtoken.Send(ctx, api.Socket(), []*os.File{dir})
	if err != nil {
		return nil, err
	}
	reply, err := client.Daemon.CheckImage(
		ctx,
		&api.CheckImageRequest{
			Files: token, Generation: view.Generation, NewPids: options.NewPIDs, TrustSeal: options.TrustSeal,
			ChangedFiles: options.Files, Gpus: gpus,
		},
	)
	if err != nil {
		return nil, api.FromStatus(err)
	}
	for _, o := range reply.GetObstacles() {
		view.Obstacles = append(
			view.Obstacles,
			obstacleView{o.GetSubject(), o.GetReason(), o.GetRemedy(), o.GetHarmless()},
		)
		view.Restorable = view.Restorable && o.GetHarmless()
	}
	for _, f := range reply.GetFiles() {
		view.Files = append(view.Files, fileView{f.GetPath(), f.GetChange(), f.GetAction(), f.GetReason(), f.GetText()})
	}
	return view, nil
}

// text prints the obstacles, and whether the generation can be restored here.
func (v *checkView) text(out Output) error {
	for _, o := range v.Obstacles {
		text := humanize.Printable(o.Subject + ": " + o.Reason)
		switch {
		case o.Harmless:
			text += " (a restore is possible)"
		case o.Remedy != "":
			text += "; " + humanize.Printable(o.Remedy)
		}
		if _, err := fmt.Fprintln(out.Out, text); err != nil {
			return err
		}
	}
	for _, f := range v.Files {
		if f.Reason == "" || f.Action == string(savedfile.ActionRefuse) { // refused files are obstacles
			continue
		}
		if _, err := fmt.Fprintln(out.Out, humanize.Printable("file "+f.Path+" "+f.text)); err != nil {
			return err
		}
	}
	if !v.Restorable {
		return nil
	}
	_, err := fmt.Fprintf(out.Out, "%s, generation %d: it can be restored here%s\n", v.Dir, v.Generation, unread)
	return err
}
