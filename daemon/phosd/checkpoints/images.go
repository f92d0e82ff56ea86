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
	gpus, err := c.machine.Assign(image.Manifest, preflight.Choice{Wanted: request.GetGpus(), Had: request.GetHadGpus()})
	if err != nil {
		return []ckpt.Obstacle{{Subject: "GPUs", Reason: err.Error()}}, nil, nil
	}
	obstacles := c.obstacles(ctx, image, caller, preflight.Restore{NewPids: request.GetNewPids(), Root: root, GPUs: gpus})
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

// obstacles returns what keeps an image from being restored, but for files of the program. A
// prepared image has its memory already.
func (c *Checkpoints) obstacles(
	ctx context.Context, image *archive.Image, caller api.Caller, how preflight.Restore,
) []ckpt.Obstacle {
	obstacles := c.machine.Obstacles(ctx, image.Manifest, how)
	if !c.prepared.has(keyOf(image, caller, how.Root, how.GPUs)) {
		obstacles = append(obstacles, c.machine.RoomObstacles(ctx, image.Manifest, how.GPUs)...)
	}
	return obstacles
}

// assign gives the programs of an image GPUs.
func (c *Checkpoints) assign(image *archive.Image, of preflight.Choice) (preflight.GPUs, error) {
	gpus, err := c.machine.Assign(image.Manifest, of)
	if err != nil {
		return gpus, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	return gpus, nil
}

// asError returns an error if any obstacle is serious.
func asError(obstacles []ckpt.Obstacle) error {
	if serious := ckpt.Serious(obstacles); len(serious) > 0 {
		return fmt.Errorf("%w: cannot be restored here: %w", api.ErrInvalid, &ckpt.ObstacleError{Obstacles: serious})
	}
	return nil
}
