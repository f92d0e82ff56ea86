package checkpoints

import (
	"context"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// CheckImage returns what keeps a generation of an image from being restored here, and what a
// restore would do with files of the program.
func (c *Checkpoints) CheckImage(
	ctx context.Context,
	directory *os.File,
	request *api.CheckImageRequest,
	caller api.Caller,
) ([]ckpt.Obstacle, []savedfile.Decision, error) {
	policy, err := savedfile.ParsePolicy(request.GetChangedFiles())
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	image, err := c.archive.Open(
		directory, request.GetGeneration(), archive.Access{Caller: caller, TrustSeal: request.GetTrustSeal()},
	)
	if err != nil {
		err = contents.ExplainDamage(pathOf(directory), err)
		return []ckpt.Obstacle{{Subject: "image", Reason: err.Error()}}, nil, nil
	}
	defer image.Close()
	place, err := caller.Container()
	if err != nil {
		return []ckpt.Obstacle{{Subject: "caller", Reason: err.Error()}}, nil, nil
	}
	root, err := rootOf(place)
	if err != nil {
		return []ckpt.Obstacle{{Subject: "caller", Reason: err.Error()}}, nil, nil
	}
	defer root.Close()
	obstacles := c.obstacles(ctx, image, conditions{newPids: request.GetNewPids(), caller: caller, root: root})
	needed, err := image.Needed(c.options.CPU)
	if err != nil {
		obstacles = append(obstacles, ckpt.Obstacle{Subject: "image", Reason: err.Error()})
	}
	obstacles = append(obstacles, preflight.Foreign(needed, image.Manifest, root)...)
	notes, err := image.MemoryNotes(ctx, c.options.CPU)
	if err != nil {
		err = contents.ExplainDamage(pathOf(directory), err)
		obstacles = append(obstacles, ckpt.Obstacle{Subject: "image", Reason: err.Error()})
	}
	obstacles = append(obstacles, notes...)
	decisions, err := ckpt.DecideFiles(image.Manifest, ckpt.CommitOptions{
		Root: root, NewPids: request.GetNewPids(), Files: policy, Own: ownPIDs(caller),
	})
	if err != nil {
		obstacles = append(obstacles, ckpt.Obstacle{Subject: "files", Reason: err.Error()})
	}
	return append(obstacles, ckpt.RefusedFiles(decisions)...), decisions, nil
}

// conditions are how an image is to be restored. The notice may be nil.
type conditions struct {
	newPids bool
	caller  api.Caller
	root    *rootdir.Root
	notice  func(string)
}

// obstacles returns what keeps an image from being restored, but for files of the program. A
// prepared image has its memory already.
func (c *Checkpoints) obstacles(ctx context.Context, image *archive.Image, how conditions) []ckpt.Obstacle {
	obstacles := c.machine.Obstacles(ctx, image.Manifest, how.newPids, how.root, how.notice)
	if !c.prepared.has(keyOf(image, how.caller, how.root)) {
		obstacles = append(obstacles, c.machine.RoomObstacles(ctx, image.Manifest)...)
	}
	return obstacles
}

// asError returns an error if any obstacle is serious.
func asError(obstacles []ckpt.Obstacle) error {
	if serious := ckpt.Serious(obstacles); len(serious) > 0 {
		return fmt.Errorf("%w: cannot be restored here: %w", api.ErrInvalid, &ckpt.ObstacleError{Obstacles: serious})
	}
	return nil
}
