package checkpoints

import (
	"context"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
)

// CheckImage returns what keeps a generation of an image from being restored here.
func (c *Checkpoints) CheckImage(
	ctx context.Context,
	directory *os.File,
	request *api.CheckImageRequest,
	caller api.Caller,
) []ckpt.Obstacle {
	image, err := c.archive.Open(directory, request.GetGeneration(), caller)
	if err != nil {
		return []ckpt.Obstacle{{Subject: "image", Reason: err.Error()}}
	}
	defer image.Close()
	obstacles := c.obstacles(ctx, image, request.GetNewPids(), caller)
	needed, err := image.Needed(c.options.CPU)
	if err != nil {
		obstacles = append(obstacles, ckpt.Obstacle{Subject: "image", Reason: err.Error()})
	}
	return append(obstacles, preflight.Foreign(needed, image.Manifest, caller.Container())...)
}

// obstacles returns what keeps an image from being restored, but for files of the program. A
// prepared image has its memory already.
func (c *Checkpoints) obstacles(
	ctx context.Context,
	image *archive.Image,
	newPids bool,
	caller api.Caller,
) []ckpt.Obstacle {
	obstacles := c.machine.Obstacles(ctx, image.Manifest, newPids, caller.Container())
	if !c.prepared.has(keyOf(image, caller)) {
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
